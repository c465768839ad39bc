// The rows of series names below a chart's title.
#pragma once

#include <vector>

#include "observe/charts/canvas.h"

namespace dtrain::observe {

struct LegendEntry {
  std::string name;
  int color = 0, dash = 0;
  bool is_bar = false;  // whether the entry shows a square instead of a line
  bool has_marker = false;
};

// Draws the legend and returns its height. If `canvas` is null, nothing is drawn, as in draw().
double draw_legend(const std::vector<LegendEntry>& entries, const Box& place, Canvas* canvas, Canvas& ruler);

}  // namespace dtrain::observe
