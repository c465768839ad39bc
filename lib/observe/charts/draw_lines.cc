#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "observe/charts/draw.h"
#include "observe/charts/legend.h"
#include "observe/charts/panel.h"
#include "observe/charts/thin.h"
#include "observe/charts/ticks.h"

namespace dtrain::observe {
namespace {

using Anchor = TextStyle::Anchor;
constexpr double kAxisTitle = 18;
// Maximum number of points with marks; with more points, marks cannot be distinguished.
constexpr size_t kMarksMax = 80;
constexpr size_t kChartEventsMax = 12;  // maximum number of events that are drawn; more would hide the data

bool is_shown(double value, Scale scale) {
  return std::abs(value) <= kChartNumberMax && (scale == Scale::kLinear || value > 0);
}

bool is_shown(const Chart& chart, const Point& point) {
  return is_shown(point.x, chart.x.scale) && is_shown(point.y, chart.y.scale);
}

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  [[nodiscard]] bool is_empty() const { return low > high; }
};

std::string titled(const Axis& axis) {
  std::string text = axis.unit.empty() ? axis.title : fmt::format("{} ({})", axis.title, axis.unit);
  if (axis.scale == Scale::kLog) text += ", log scale";
  return text;
}

// The caption above the y axis, without the words that the chart's title already contains.
std::string y_caption(const Chart& chart) {
  const Axis& axis = chart.y;
  if (axis.title != chart.title) return titled(axis);
  const char* scale = axis.scale == Scale::kLog ? "log scale" : "";
  return axis.unit.empty() || *scale == 0 ? axis.unit + scale : fmt::format("{}, {}", axis.unit, scale);
}

// Maps numbers to positions in the drawing.
class Frame {
 public:
  Frame(const Chart& chart, const Ticks& x, const Ticks& y, Box plot) : chart_(chart), x_(x), y_(y), plot_(plot) {}
  [[nodiscard]] double x(double value) const { return plot_.x + plot_.width * part(value, x_, chart_.x.scale); }
  [[nodiscard]] double y(double value) const { return plot_.y + plot_.height * (1 - part(value, y_, chart_.y.scale)); }

 private:
  static double part(double value, const Ticks& axis, Scale scale) {
    if (scale == Scale::kLinear) return (value - axis.low) / (axis.high - axis.low);
    return std::log(value / axis.low) / std::log(axis.high / axis.low);
  }

  const Chart& chart_;
  const Ticks& x_;
  const Ticks& y_;
  Box plot_;
};

class LineDrawing {
 public:
  LineDrawing(const Chart& chart, Canvas& canvas, const Box& plot, const Ticks& x, const Ticks& y)
      : chart_(chart), canvas_(canvas), plot_(plot), x_(x), y_(y), frame_(chart, x, y, plot) {}

  void axes() {
    for (const Tick& tick : y_.ticks) {
      const double at = frame_.y(tick.value);
      segment({plot_.x, at}, {plot_.x + plot_.width, at}, {{Ink::Kind::kGrid}, 1});
      TextStyle label = kPanelLabel;
      label.anchor = Anchor::kEnd;
      canvas_.text({plot_.x - 6, at + 4}, tick.label, label);
    }
    const double bottom = plot_.y + plot_.height;
    segment({plot_.x, bottom}, {plot_.x + plot_.width, bottom}, {{Ink::Kind::kMuted}, 1});
    double free_from = 0;  // position before which the next label may not begin
    for (const Tick& tick : x_.ticks) {
      const double at = frame_.x(tick.value), half = canvas_.text_width(tick.label, kPanelLabel) / 2;
      segment({at, bottom}, {at, bottom + 4}, {{Ink::Kind::kMuted}, 1});
      if (at - half < free_from) continue;
      TextStyle label = kPanelLabel;
      label.anchor = Anchor::kMiddle;
      canvas_.text({at, bottom + 16}, tick.label, label);
      free_from = at + half + 6;
    }
  }

  void events() {
    for (size_t i = 0; i < std::min(chart_.events.size(), kChartEventsMax); i++) {
      const ChartEvent& event = chart_.events[i];
      if (!(event.x >= x_.low && event.x <= x_.high)) continue;
      const double at = frame_.x(event.x);
      segment({at, plot_.y}, {at, plot_.y + plot_.height}, {{Ink::Kind::kMuted}, 1, 2});
      TextStyle label = kPanelLabel;
      label.size = 10;
      const bool to_the_left = at > plot_.x + plot_.width / 2;
      label.anchor = to_the_left ? Anchor::kEnd : Anchor::kStart;
      canvas_.text({at + (to_the_left ? -4 : 4), plot_.y + 10 + 12 * static_cast<double>(i % 3)}, event.text, label);
    }
  }

  void series(const Series& series) {
    std::vector<Point> shown = series.points;
    for (Point& point : shown) {
      if (!is_shown(chart_, point)) point.y = std::numeric_limits<double>::quiet_NaN();
    }
    const std::vector<Point> points =
        thin(shown, [&](double x) { return static_cast<int>(std::floor(frame_.x(x) * 2)); });
    const bool marked = series.has_markers && points.size() <= kMarksMax;
    std::vector<Point> run;
    for (const Point& point : points) {
      if (!std::isnan(point.y)) {
        const Point at{frame_.x(point.x), frame_.y(point.y)};
        if (series.is_stair && !run.empty()) run.push_back({at.x, run.back().y});
        run.push_back(at);
        if (marked) mark(series, point);
        continue;
      }
      stroke(series, run, marked);
    }
    stroke(series, run, marked);
  }

 private:
  void segment(Point from, Point to, const Pen& pen) {
    const std::array<Point, 2> ends = {from, to};
    canvas_.line(ends, pen);
  }

  void mark(const Series& series, const Point& point) {
    const std::string hint =
        fmt::format("{}: {} at {} {}", series.name, short_number(point.y), chart_.x.title, short_number(point.x));
    canvas_.mark({frame_.x(point.x), frame_.y(point.y)}, {Ink::Kind::kSeries, series.color}, series.color, hint);
  }

  void stroke(const Series& series, std::vector<Point>& run, bool marked) {
    const Ink ink{Ink::Kind::kSeries, series.color};
    if (run.size() > 1) canvas_.line(run, {ink, 1.6, series.dash});
    if (run.size() == 1 && !marked) canvas_.mark(run[0], ink, series.color, series.name);
    run.clear();
  }

  const Chart& chart_;
  Canvas& canvas_;
  Box plot_;
  const Ticks& x_;
  const Ticks& y_;
  Frame frame_;
};

struct Ranges {
  Range x, y;
};

Ranges ranges_of(const Chart& chart) {
  Ranges ranges;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      if (!is_shown(chart, point)) continue;
      ranges.x.add(point.x);
      ranges.y.add(point.y);
    }
  }
  if (ranges.x.is_empty()) return ranges;
  if (chart.x.from_zero && chart.x.scale == Scale::kLinear) ranges.x.add(0);
  if (chart.y.from_zero && chart.y.scale == Scale::kLinear) ranges.y.add(0);
  return ranges;
}

std::vector<LegendEntry> legend_of(const Chart& chart) {
  std::vector<LegendEntry> entries;
  if (chart.series.size() == 1 && chart.series[0].name == chart.title)
    return entries;  // the name would only repeat the title
  for (const Series& series : chart.series) {
    entries.push_back({series.name, series.color, series.dash, false, series.has_markers});
  }
  return entries;
}

double widest(const Ticks& ticks, Canvas& ruler) {
  double width = 0;
  for (const Tick& tick : ticks.ticks) width = std::max(width, ruler.text_width(tick.label, kPanelLabel));
  return width;
}

void draw_plot(const Chart& chart, const Box& area, const Ranges& ranges, Canvas& canvas) {
  const int y_count = std::clamp(static_cast<int>(area.height / 45), 2, 8);
  const Ticks y = ticks_of(ranges.y.low, ranges.y.high, y_count, chart.y.scale, true);
  const double left = widest(y, canvas) + 8;
  const Box plot{area.x + left, area.y, area.width - left - 8, area.height};
  const int x_count = std::clamp(static_cast<int>(plot.width / 75), 2, 12);
  const Ticks x = ticks_of(ranges.x.low, ranges.x.high, x_count, chart.x.scale, false);
  LineDrawing drawing(chart, canvas, plot, x, y);
  drawing.axes();
  drawing.events();
  for (const Series& series : chart.series) drawing.series(series);
  TextStyle title = kPanelLabel;
  title.anchor = Anchor::kEnd;
  canvas.text({plot.x + plot.width, plot.y + plot.height + 31}, titled(chart.x), title);
}

}  // namespace

double draw(const Chart& chart, const PanelSize& size, double top, Canvas* canvas, Canvas& ruler) {
  const double width = size.width - 2 * kPanelMargin;
  double y = top + kPanelMargin;
  y += draw_title(chart.title, y, width, canvas, ruler);
  y += draw_legend(legend_of(chart), {kPanelMargin, y, width, 0}, canvas, ruler);
  if (const std::string caption = y_caption(chart); !caption.empty()) {
    if (canvas != nullptr)
      canvas->text({kPanelMargin, y + 13}, fitted(ruler, caption, kPanelLabel, width), kPanelLabel);
    y += kAxisTitle;
  }
  y += 6;
  const Box area{kPanelMargin, y, width, size.plot_height};
  if (const Ranges ranges = ranges_of(chart); canvas != nullptr && !ranges.x.is_empty()) {
    draw_plot(chart, area, ranges, *canvas);
  } else if (canvas != nullptr) {
    canvas->text({area.x, area.y + 20}, "no data", kPanelLabel);
  }
  return y + size.plot_height + kPanelBelow - top;
}

}  // namespace dtrain::observe
