#include "observe/charts/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "observe/charts/ticks.h"

namespace dtrain::observe {
namespace {

constexpr size_t kDescribedMax = 8;

std::string sentence_of(const Series& series) {
  double low = 0, high = 0, last = 0;
  size_t count = 0;
  for (const Point& point : series.points) {
    if (!(std::abs(point.x) <= kChartNumberMax && std::abs(point.y) <= kChartNumberMax)) continue;
    low = count == 0 ? point.y : std::min(low, point.y);
    high = count == 0 ? point.y : std::max(high, point.y);
    last = point.y;
    count++;
  }
  if (count == 0) return fmt::format(" {}: no points.", series.name);
  return fmt::format(" {}: {} {} between {} and {}; the last is {}.", series.name, count,
                     count == 1 ? "point" : "points", short_number(low), short_number(high), short_number(last));
}

std::string more_than(size_t all) {
  return all > kDescribedMax ? fmt::format(" {} more.", all - kDescribedMax) : "";
}

}  // namespace

std::string description_of(const Chart& chart) {
  std::string text = fmt::format("Line chart of {} over {}{}.", chart.y.title, chart.x.title,
                                 chart.y.scale == Scale::kLog ? ", on a logarithmic scale" : "");
  for (size_t i = 0; i < std::min(chart.series.size(), kDescribedMax); i++) text += sentence_of(chart.series[i]);
  return text + more_than(chart.series.size());
}

std::string description_of(const BarChart& chart) {
  std::string text = "Bar chart.";
  for (size_t i = 0; i < std::min(chart.bars.size(), kDescribedMax); i++) {
    const BarChart::Bar& bar = chart.bars[i];
    text += fmt::format(" {}:", bar.name);
    for (size_t part = 0; part < std::min(bar.values.size(), chart.parts.size()); part++) {
      text += fmt::format("{} {} {}{}", part == 0 ? "" : ",", chart.parts[part],
                          short_number(std::isfinite(bar.values[part]) ? bar.values[part] : 0),
                          chart.unit.empty() ? "" : " " + chart.unit);
    }
    text += ".";
  }
  return text + more_than(chart.bars.size());
}

}  // namespace dtrain::observe
