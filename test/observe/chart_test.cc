// Charts: what is drawn where, on both canvases.
#include <algorithm>
#include <cmath>
#include <limits>

#include "drawing.h"
#include "observe/charts/draw.h"
#include "observe/charts/svg.h"
#include "observe/charts/thin.h"
#include "observe/charts/ticks.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::observe;
using Catch::Matchers::Contains;
using dtrain::test::must;

namespace {

const double kGap = std::numeric_limits<double>::quiet_NaN();

std::string labels_of(const Ticks& ticks) {
  std::string text;
  for (const Tick& tick : ticks.ticks) text += (text.empty() ? "" : " ") + tick.label;
  return text;
}

size_t times_in(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) count++;
  return count;
}

Chart chart_with(std::vector<Point> points) {
  return {.title = "loss",
          .x = {.title = "step"},
          .y = {.title = "loss"},
          .series = {{.name = "run", .points = std::move(points)}},
          .events = {}};
}

std::string svg_with(std::vector<Point> points) {
  return svg_of(chart_with(std::move(points)), {.width = 400, .plot_height = 200}, false);
}

}  // namespace

TEST_CASE("ticks are round numbers", "[observe]") {
  CHECK(labels_of(ticks_of(0, 1, 5, Scale::kLinear, true)) == "0 0.2 0.4 0.6 0.8 1.0");
  CHECK(labels_of(ticks_of(0.13, 2.31, 5, Scale::kLinear, true)) == "0 0.5 1.0 1.5 2.0 2.5");
  CHECK(labels_of(ticks_of(0, 4690, 6, Scale::kLinear, false)) == "0 1000 2000 3000 4000");
  CHECK(labels_of(ticks_of(0, 46900, 6, Scale::kLinear, false)) == "0 10k 20k 30k 40k");
  CHECK(labels_of(ticks_of(0, 1.2e7, 4, Scale::kLinear, false)) == "0 5M 10M");
  CHECK(labels_of(ticks_of(-3, 3, 4, Scale::kLinear, true)) == "-4 -2 0 2 4");
  CHECK(labels_of(ticks_of(0.001, 10, 5, Scale::kLog, true)) == "0.001 0.01 0.1 1 10");
  CHECK(labels_of(ticks_of(2, 8, 4, Scale::kLog, true)) == "2 4 6 8");
  const Ticks one = ticks_of(0.05, 0.05, 5, Scale::kLinear, true);
  CHECK(one.low < 0.05);
  CHECK(one.high > 0.05);
}

// Whatever the range is, there are a few ticks, which ascend within the ends and have different labels.
TEST_CASE("any range has ticks that can be told apart", "[observe]") {
  for (const Scale scale : {Scale::kLinear, Scale::kLog}) {
    for (int power = -90; power <= 90; power += 3) {
      for (const double ratio : {1.0, 1.0001, 1.37, 9.0, 1e3, 1e9}) {
        const double low = 1.7 * std::pow(10, power), high = low * ratio;
        const Ticks ticks = ticks_of(low, high, 6, scale, true);
        INFO("from " << low << " to " << high << ": " << labels_of(ticks));
        REQUIRE(ticks.low <= low * (1 + 1e-9));
        REQUIRE(ticks.high >= high * (1 - 1e-9));
        REQUIRE(ticks.ticks.size() >= 2);
        REQUIRE(ticks.ticks.size() <= 20);
        for (size_t i = 1; i < ticks.ticks.size(); i++) {
          REQUIRE(ticks.ticks[i].value > ticks.ticks[i - 1].value);
          if (std::abs(power) < 15 && ratio > 1.01) REQUIRE(ticks.ticks[i].label != ticks.ticks[i - 1].label);
        }
      }
    }
  }
}

TEST_CASE("numbers are written short", "[observe]") {
  CHECK(short_number(0) == "0");
  CHECK(short_number(1234) == "1234");
  CHECK(short_number(12345) == "12.3k");
  CHECK(short_number(-2.5e9) == "-2.5G");
  CHECK(short_number(0.000123456) == "0.000123");
}

TEST_CASE("a thinned line keeps the lowest and the highest point of each column, and its gaps", "[observe]") {
  std::vector<Point> points;
  for (int i = 0; i < 1'000'000; i++) points.push_back({i / 1000.0, std::sin(i)});
  points[654'321].y = 50;
  points[765'432].y = -50;
  points[300'000].y = points[300'001].y = kGap;
  const std::vector<Point> few = thin(points, [](double x) { return static_cast<int>(x); });
  CHECK(few.size() <= 4 * 1000 + 6);
  const auto has = [&](const Point& point) { return std::find(few.begin(), few.end(), point) != few.end(); };
  CHECK(has(points.front()));
  CHECK(has(points.back()));
  CHECK(has(points[654'321]));
  CHECK(has(points[765'432]));
  CHECK(std::count_if(few.begin(), few.end(), [](const Point& point) { return std::isnan(point.y); }) == 1);
}

TEST_CASE("a chart has its title, its axes with units, a legend and a line", "[observe]") {
  Chart chart = chart_with({{0, 2.3}, {100, 0.4}, {200, 0.1}});
  chart.x.unit = "min";
  chart.y.unit = "nats";
  chart.events = {{100, "resumed"}};
  const std::string svg = svg_of(chart, {.width = 400, .plot_height = 200}, true);
  CHECK_THAT(svg, Contains("<title>loss</title>") && Contains(">step (min)</text>") && Contains(">nats</text>"));
  CHECK_THAT(svg, Contains(">run</text>") && Contains(">resumed</text>") && Contains("role=\"img\""));
  CHECK_THAT(svg, Contains("run: 3 points between 0.1 and 2.3; the last is 0.1."));
  CHECK_THAT(svg, Contains("<style>") && Contains(".l0{stroke:#0072b2}"));
  CHECK(times_in(svg, "<polyline class=\"l0\"") == 2);  // in the legend, and the data
  // The title is not repeated above the axis, nor in a legend of one.
  CHECK(times_in(svg_with({{0, 1}, {1, 0}}), ">loss</text>") == 1);
  // From the first point at the top of the left end to the last one at the bottom of the right end.
  CHECK_THAT(svg_with({{0, 1}, {1, 0}}), Contains("35.6,55 382,255\""));
}

TEST_CASE("gaps interrupt a line, and a lone point is a dot", "[observe]") {
  CHECK(times_in(svg_with({{0, 1}, {1, 2}, {2, kGap}, {3, 1}, {4, 2}}), "<polyline class=\"l0\"") == 3);
  const std::string lone = svg_with({{5, 0.5}});
  CHECK(times_in(lone, "<polyline class=\"l0\"") == 1);
  CHECK(times_in(lone, "<circle class=\"f0\"") == 1);
  for (const double odd : {kGap, std::numeric_limits<double>::infinity(), -1e300}) {
    CHECK_THAT(svg_with({{0, odd}}), Contains("no data"));
    CHECK_THAT(svg_with({{odd, 0}}), Contains("no data"));
  }
  CHECK_THAT(svg_with({}), Contains("no data"));
}

TEST_CASE("a stair keeps each value until the next one", "[observe]") {
  Chart chart = chart_with({{0, 1}, {1, 0}});
  chart.series[0].is_stair = true;
  CHECK_THAT(svg_of(chart, {.width = 400, .plot_height = 200}, false), Contains("35.6,55 382,55 382,255\""));
}

TEST_CASE("a log scale leaves out what has no logarithm", "[observe]") {
  Chart chart = chart_with({{0, 100}, {1, 0}, {2, -5}, {3, 0.01}, {4, 1}});
  chart.y.scale = Scale::kLog;
  const std::string svg = svg_of(chart, {.width = 400, .plot_height = 200}, false);
  CHECK_THAT(svg, Contains(">0.01</text>") && Contains(">100</text>") && Contains("log scale"));
  CHECK_THAT(svg, !Contains("nan") && !Contains("inf"));
}

TEST_CASE("marks are drawn as long as they can be told apart", "[observe]") {
  Chart chart = chart_with({{0, 0.5}, {1, 0.75}, {2, 0.8}});
  chart.series[0].has_markers = true;
  CHECK_THAT(svg_of(chart, {}, false), Contains("<title>run: 0.75 at step 1</title>"));
  for (int i = 3; i < 1000; i++) chart.series[0].points.push_back({1.0 * i, 0.9 + 1.0 / i});
  CHECK_THAT(svg_of(chart, {}, false), !Contains("<title>run"));
}

TEST_CASE("texts from files cannot become markup", "[observe]") {
  Chart chart = chart_with({{0, 1}});
  chart.title = "<script>alert('&\"')</script>";
  chart.series[0].name = "a\x01\xff</text>";
  const std::string svg = svg_of(chart, {}, true);
  CHECK_THAT(svg, !Contains("<script") && !Contains("\x01") && Contains("&lt;script&gt;alert(&#39;&amp;&quot;"));
  CHECK_THAT(svg, Contains("a \xef\xbf\xbd&lt;/text&gt;"));
}

TEST_CASE("bars are as long as their parts together", "[observe]") {
  const BarChart chart{.title = "Time by phase",
                       .unit = "s",
                       .parts = {"forward", "backward"},
                       .bars = {{"worker 0", {10, 30}}, {"worker 1", {0, kGap}}}};
  const std::string svg = svg_of(chart, {.width = 700, .plot_height = 0}, false);
  CHECK_THAT(svg, Contains("<title>worker 0, forward: 10 s</title>") && Contains(">worker 1</text>"));
  CHECK_THAT(svg, Contains(">40</text>") && !Contains("nan"));
  CHECK_THAT(description_of(chart), Contains("worker 0: forward 10 s, backward 30 s."));
  CHECK_THAT(svg_of(BarChart{.title = "empty"}, {}, false), Contains("no data"));
}

// The file is read back: it has the size that was asked for, light paper, and ink in the colors of the series.
TEST_CASE("a PNG shows the same chart", "[observe]") {
  Chart chart = chart_with({{0, 2.3}, {100, 0.4}, {200, 0.1}});
  chart.series.push_back({.name = "other", .points = {{0, 1}, {200, 2}}, .has_markers = true, .color = 1, .dash = 2});
  const test::Drawing drawing =
      test::read_png(must(png_of(std::vector{chart, chart}, {.width = 400, .plot_height = 200})));
  CHECK(drawing.width == 800);
  CHECK(drawing.height > 2 * 2 * 200);
  CHECK(drawing.pixels.front() == 0xffffff);
  CHECK(drawing.count(0x0072b2) > 500);
  CHECK(drawing.count(0xc94f00) > 200);
  CHECK(drawing.count(0x1c1e21) > 100);  // the title
  CHECK(drawing.count(0xffffff) > drawing.pixels.size() / 2);
}

TEST_CASE("a PNG that Cairo cannot draw is refused", "[observe]") {
  const std::vector<Chart> many(200, chart_with({{0, 1}}));
  CHECK(png_of(many, {.width = 400, .plot_height = 300}).error().code == Code::kUsage);
}
