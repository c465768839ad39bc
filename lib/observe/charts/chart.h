// What a chart shows, as data: series over axes, or bars. draw.h draws it on a canvas.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::observe {

struct Point {
  double x = 0, y = 0;
  bool operator==(const Point&) const = default;
};

// Values whose magnitude is larger, NaN and infinity are gaps in a line.
inline constexpr double kChartNumberMax = 1e100;

enum class Scale : uint8_t { kLinear, kLog };

struct Axis {
  std::string title;      // title of the chart, such as "loss"
  std::string unit = {};  // unit of the values, such as "s"; empty: none
  Scale scale = Scale::kLinear;
  bool from_zero = false;  // the axis begins at 0, even if all values are far from 0; ignored on a log scale
};

// A line through points in their order. A gap interrupts the line; a point between two gaps is drawn as a dot. On a log
// scale, a value that is 0 or negative is also a gap.
struct Series {
  std::string name = {};  // name in the legend
  std::vector<Point> points = {};
  bool has_markers = false;  // each point gets a marker, unless there are too many to distinguish
  bool is_stair = false;     // each value holds until the next point, so the line consists of level parts and steps
  // Numbers of the color and of the dash pattern (0: a solid line). Series with equal numbers look alike.
  int color = 0, dash = 0;
};

// An event at one position on the x axis: a vertical line with a text.
struct ChartEvent {
  double x = 0;
  std::string text;
};

struct Chart {
  std::string title;
  Axis x, y;
  std::vector<Series> series;
  std::vector<ChartEvent> events;
};

// Horizontal bars, each divided into parts.
struct BarChart {
  std::string title;
  std::string unit = {};                // unit of the values
  std::vector<std::string> parts = {};  // names, in the order from left to right
  struct Bar {
    std::string name;
    std::vector<double> values;  // one value for each part of the bar, at least 0
  };
  std::vector<Bar> bars = {};
};

// One sentence for people who cannot see the chart: "Line chart of loss over step, 2 series. a: 12 points, from 2.3
// to 0.1, last 0.12. ..." At most eight series are described.
std::string description_of(const Chart& chart);
std::string description_of(const BarChart& chart);

}  // namespace dtrain::observe
