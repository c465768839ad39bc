// The rows of series names below a chart's title.
#pragma once

#include <vector>

#include "observe/charts/canvas.h"

namespace dtrain::observe {

struct LegendEntry {
  std::string name;
  int color = 0, dash = 0;
  bool is_bar = false;  // a square instead of a line
  bool has_marker = false;
};

// Like draw(): returns the height, and draws nothing if `canvas` is null.
double draw_legend(const std::vector<LegendEntry>& entries, const Box& place, Canvas* canvas, Canvas& ruler);

}  // namespace dtrain::observe
