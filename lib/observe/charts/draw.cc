#include "observe/charts/draw.h"

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
  DT_TRY(PngCanvas ruler, PngCanvas::create(1, 1, kPhysical));
  const double height = draw_all(charts, size, nullptr, ruler);
  DT_TRY(PngCanvas canvas, PngCanvas::create(size.width, height, kPhysical));
  draw_all(charts, size, &canvas, canvas);
  return canvas.finish();
}

}  // namespace dtrain::observe
