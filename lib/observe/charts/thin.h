// Fewer points that look like all of them.
#pragma once

#include <functional>
#include <vector>

#include "observe/charts/chart.h"

namespace dtrain::observe {

// Of the neighboring points that fall into one column of the drawing, keeps the first, the lowest, the highest and
// the last one, so the line covers the same pixels. Of gaps side by side one is kept. `column` maps x to a column.
std::vector<Point> thin(const std::vector<Point>& points, const std::function<int(double x)>& column);

}  // namespace dtrain::observe
