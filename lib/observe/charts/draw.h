// Draws charts on a canvas: a title, a legend if there are several series, the axes with round numbers, and the data.
#pragma once

#include <span>
#include <string>

#include "observe/charts/canvas.h"
#include "observe/charts/chart.h"

namespace dtrain::observe {

struct PanelSize {
  double width = 480;
  double plot_height = 200;  // height of the area between the axes, without the title, legend and labels
};

// Draws a chart with its top left corner at (0, `top`), and returns its height. If `canvas` is null, nothing is drawn;
// `ruler` measures texts in either case. If the chart is empty, the drawing says that there are no data.
double draw(const Chart& chart, const PanelSize& size, double top, Canvas* canvas, Canvas& ruler);
// Each bar takes a row, so plot_height is not used.
double draw(const BarChart& chart, const PanelSize& size, double top, Canvas* canvas, Canvas& ruler);

// Returns a complete drawing, of one chart or of several charts stacked vertically.
std::string svg_of(const Chart& chart, const PanelSize& size, bool has_style);
std::string svg_of(const BarChart& chart, const PanelSize& size, bool has_style);
std::string svg_of(std::span<const Chart> charts, const PanelSize& size);
// Uses two physical pixels for each pixel. Fails like make_png_canvas() (png.h).
Result<std::string> png_of(std::span<const Chart> charts, const PanelSize& size);

}  // namespace dtrain::observe
