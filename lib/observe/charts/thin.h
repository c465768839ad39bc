// Removes points without changing how a line looks.
#pragma once

#include <functional>
#include <vector>

#include "observe/charts/chart.h"

namespace dtrain::observe {

// Of the successive points that fall into one column of the drawing, keeps the first, the lowest, the highest and the
// last, so that the line covers the same pixels. Of successive gaps, keeps one. `column` maps x to a column.
std::vector<Point> thin(const std::vector<Point>& points, const std::function<int(double x)>& column);

}  // namespace dtrain::observe
