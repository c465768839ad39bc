#include "observe/charts/draw.h"

#include <memory>

#include "base/module.h"
#include "observe/charts/png.h"
#include "observe/charts/svg.h"

namespace dtrain::observe {
namespace {

template <class AnyChart>
std::string one_svg(const AnyChart& chart, const PanelSize& size, bool has_style) {
  SvgCanvas canvas;
  const double height = draw(chart, size, 0, &canvas, canvas);
  return canvas.finish({size.width, height, chart.title, description_of(chart), has_style});
}

double draw_all(std::span<const Chart> charts, const PanelSize& size, Canvas* canvas, Canvas& ruler) {
  double top = 0;
  for (const Chart& chart : charts) top += draw(chart, size, top, canvas, ruler);
  return top;
}

}  // namespace

Result<std::unique_ptr<PngCanvas>> make_png_canvas(double width, double height, double scale) {
  DT_TRY(const ChartsModule* const module, load_module<ChartsModule>(kChartsModule));
  return module->make_png_canvas(width, height, scale);
}

std::string svg_of(const Chart& chart, const PanelSize& size, bool has_style) {
  return one_svg(chart, size, has_style);
}

std::string svg_of(const BarChart& chart, const PanelSize& size, bool has_style) {
  return one_svg(chart, size, has_style);
}

std::string svg_of(std::span<const Chart> charts, const PanelSize& size) {
  SvgCanvas canvas;
  const double height = draw_all(charts, size, &canvas, canvas);
  std::string title, description;
  for (const Chart& chart : charts) {
    title += (title.empty() ? "" : ", ") + chart.title;
    description += (description.empty() ? "" : " ") + description_of(chart);
  }
  return canvas.finish({size.width, height, title, description, true});
}

Result<std::string> png_of(std::span<const Chart> charts, const PanelSize& size) {
  constexpr double kPhysical = 2;
  DT_TRY(const std::unique_ptr<PngCanvas> ruler, make_png_canvas(1, 1, kPhysical));
  const double height = draw_all(charts, size, nullptr, *ruler);
  DT_TRY(const std::unique_ptr<PngCanvas> canvas, make_png_canvas(size.width, height, kPhysical));
  draw_all(charts, size, canvas.get(), *canvas);
  return canvas->finish();
}

}  // namespace dtrain::observe
