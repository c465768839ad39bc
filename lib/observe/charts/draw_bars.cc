#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "observe/charts/draw.h"
#include "observe/charts/legend.h"
#include "observe/charts/panel.h"
#include "observe/charts/ticks.h"

namespace dtrain::observe {
namespace {

using Anchor = TextStyle::Anchor;
constexpr double kBarsRow = 26, kBar = 18;

double shown(double value) {
  return value > 0 && value <= kChartNumberMax ? value : 0;
}

double sum_of(const BarChart::Bar& bar) {
  double sum = 0;
  for (const double value : bar.values) sum += shown(value);
  return sum;
}

void draw_bar(const BarChart& chart, const BarChart::Bar& bar, const Box& place, double per_unit, Canvas& canvas) {
  double x = place.x;
  for (size_t part = 0; part < std::min(bar.values.size(), chart.parts.size()); part++) {
    const double width = shown(bar.values[part]) * per_unit;
    const std::string hint =
        fmt::format("{}, {}: {} {}", bar.name, chart.parts[part], short_number(bar.values[part]), chart.unit);
    if (width > 0) canvas.box({x, place.y, width, place.height}, {Ink::Kind::kSeries, static_cast<int>(part)}, hint);
    // A thin line in the color of the paper separates parts that have similar colors.
    if (width > 2) canvas.box({x + width - 1, place.y, 1, place.height}, {Ink::Kind::kPaper}, {});
    x += width;
  }
}

void draw_axis(const BarChart& chart, const Ticks& ticks, const Box& plot, Canvas& canvas) {
  TextStyle label = kPanelLabel;
  label.anchor = Anchor::kMiddle;
  for (const Tick& tick : ticks.ticks) {
    const double at = plot.x + plot.width * tick.value / ticks.high;
    const std::array<Point, 2> ends = {Point{at, plot.y}, Point{at, plot.y + plot.height}};
    canvas.line(ends, {{Ink::Kind::kGrid}, 1});
    canvas.text({at, plot.y + plot.height + 15}, tick.label, label);
  }
  label.anchor = Anchor::kEnd;
  if (!chart.unit.empty()) canvas.text({plot.x + plot.width, plot.y + plot.height + 30}, chart.unit, label);
}

void draw_all_bars(const BarChart& chart, const Box& area, Canvas& canvas) {
  double longest = 0, names = 0;
  for (const BarChart::Bar& bar : chart.bars) {
    longest = std::max(longest, sum_of(bar));
    names = std::max(names, canvas.text_width(bar.name, kPanelLabel));
  }
  names = std::min(names, area.width * 0.3);
  const Box plot{area.x + names + 8, area.y, area.width - names - 24, area.height};
  Ticks ticks = ticks_of(0, longest > 0 ? longest : 1, std::clamp(static_cast<int>(plot.width / 75), 2, 10),
                         Scale::kLinear, true);
  draw_axis(chart, ticks, plot, canvas);
  TextStyle label = kPanelLabel;
  label.anchor = Anchor::kEnd;
  for (size_t i = 0; i < chart.bars.size(); i++) {
    const double y = area.y + static_cast<double>(i) * kBarsRow + (kBarsRow - kBar) / 2;
    canvas.text({plot.x - 6, y + kBar - 5}, fitted(canvas, chart.bars[i].name, kPanelLabel, names), label);
    draw_bar(chart, chart.bars[i], {plot.x, y, 0, kBar}, plot.width / ticks.high, canvas);
  }
}

}  // namespace

double draw(const BarChart& chart, const PanelSize& size, double top, Canvas* canvas, Canvas& ruler) {
  const double width = size.width - 2 * kPanelMargin;
  double y = top + kPanelMargin;
  y += draw_title(chart.title, y, width, canvas, ruler);
  std::vector<LegendEntry> entries;
  for (size_t i = 0; i < chart.parts.size(); i++) {
    entries.push_back({.name = chart.parts[i], .color = static_cast<int>(i), .is_bar = true});
  }
  y += draw_legend(entries, {kPanelMargin, y, width, 0}, canvas, ruler) + 8;
  const double height = std::max(1.0, static_cast<double>(chart.bars.size())) * kBarsRow;
  if (canvas != nullptr && !chart.bars.empty()) draw_all_bars(chart, {kPanelMargin, y, width, height}, *canvas);
  if (canvas != nullptr && chart.bars.empty()) canvas->text({kPanelMargin, y + 18}, "no data", kPanelLabel);
  return y + height + kPanelBelow - top;
}

}  // namespace dtrain::observe
