#include "observe/report/plots.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>

#include "base/nearest.h"
#include "base/printable.h"
#include "observe/charts/palette.h"
#include "telemetry/catalogue.h"

namespace dtrain::observe {
namespace {

constexpr size_t kWorkersMax = 8;  // maximum number of lines for one run in a chart

struct Named {
  const char* metric;
  const char* title;
};
constexpr std::array kTitles = {Named{"train_cross_entropy", "training loss (cross-entropy)"},
                                Named{"train_accuracy", "training accuracy"},
                                Named{"validation_accuracy", "validation accuracy"},
                                Named{"lr", "learning rate"},
                                Named{"samples_per_s", "throughput"},
                                Named{"wait_data_s", "waiting for data, in each window"},
                                Named{"wait_network_s", "waiting for the network, in each window"},
                                Named{"epoch_s", "time of an epoch"},
                                Named{"memory_bytes", "memory of the process"},
                                Named{"gpu_busy_share", "share of time in which the GPU was busy"},
                                Named{"gpu_memory_bytes", "memory of the GPU in use"}};

std::string title_of(const std::string& metric) {
  for (const Named& named : kTitles) {
    if (metric == named.metric) return named.title;
  }
  return metric;
}

std::string unit_of(const std::string& metric) {
  const std::string name = metric.substr(0, metric.find('/'));
  if (name == "epoch_s") return "s";
  const std::optional<telemetry::Metric> found = telemetry::find_metric(name);
  if (!found) return "";
  switch (telemetry::info(*found).unit) {
    case telemetry::Unit::kSeconds: return "s";
    case telemetry::Unit::kMilliseconds: return "ms";
    case telemetry::Unit::kBytes: return "bytes";
    case telemetry::Unit::kSamplesPerSecond: return "samples/s";
    case telemetry::Unit::kWatts: return "W";
    case telemetry::Unit::kCelsius: return "°C";
    default: return "";
  }
}

// True if a single curve represents the whole job: all workers of a synchronous job have the same values, and the
// workers of other jobs have nearly the same.
bool is_of_job(const std::string& metric) {
  return metric.starts_with("train_") || metric.starts_with("validation_") || metric == "lr";
}

// "accuracy" for both "train_accuracy" and "validation_accuracy", because they belong in one chart.
std::string quantity_of(const std::string& metric) {
  for (const std::string_view set : {"train_", "validation_"}) {
    if (metric.starts_with(set)) return metric.substr(set.size());
  }
  return metric;
}

std::string role_of(const std::string& metric, const std::string& quantity) {
  return metric.substr(0, metric.size() - quantity.size() - 1) == "train" ? "training" : "validation";
}

double place_of(const Moment& at, PlotOver over) {
  switch (over) {
    case PlotOver::kStep: return at.step;
    case PlotOver::kSamples: return at.samples;
    case PlotOver::kTime: return at.seconds;
    case PlotOver::kEpoch: return at.epoch;
  }
  return kUnknown;
}

Axis axis_of(PlotOver over) {
  switch (over) {
    case PlotOver::kStep: return {.title = "step", .from_zero = true};
    case PlotOver::kSamples: return {.title = "samples", .from_zero = true};
    case PlotOver::kTime: return {.title = "time", .unit = "s", .from_zero = true};
    case PlotOver::kEpoch: return {.title = "epoch", .from_zero = true};
  }
  return {};
}

// The curves of a run for one metric.
struct Chosen {
  const Curve* curve = nullptr;
  std::string name;  // what the curve is about: "worker 3"; empty: the whole run
  bool of_epochs = false;
};

std::vector<Chosen> curves_of_job(const Run& run, const std::string& metric) {
  // Prefers the values of windows, which show more detail than those of epochs, unless there is only one window.
  for (const uint64_t least : {2, 1}) {
    for (const bool of_epochs : {false, true}) {
      const std::vector<int64_t> ranks = run.workers_with(metric, of_epochs);
      if (ranks.empty()) continue;
      const Curve* curve = run.curve({metric, of_epochs, "worker", ranks[0]});
      if (curve->count() >= least) return {{curve, "", of_epochs}};
    }
  }
  return {};
}

// The lowest, the median and the highest curve.
std::vector<Chosen> three_of(std::vector<Chosen> all) {
  std::stable_sort(all.begin(), all.end(),
                   [](const Chosen& a, const Chosen& b) { return a.curve->mean() < b.curve->mean(); });
  Chosen low = all.front(), middle = all[all.size() / 2], high = all.back();
  low.name += " (lowest)";
  middle.name += " (median)";
  high.name += " (highest)";
  return {low, middle, high};
}

// "server 1", or "worker 0, device 1" if the curve has a label and `metric` does not.
std::string curve_name(const CurveKey& key, const std::string& metric) {
  std::string name = fmt::format("{} {}", key.role, key.rank);
  if (key.metric == metric) return name;
  const std::optional<telemetry::Metric> found = telemetry::find_metric(metric);
  return fmt::format("{}, {} {}", name, found ? telemetry::info(*found).label : "", printable(key.label()));
}

std::vector<Chosen> curves_of_processes(const Run& run, const std::string& metric) {
  bool has_windows = false;
  for (const auto& [key, curve] : run.curves) has_windows |= is_curve_of(key.metric, metric) && !key.of_epochs;
  std::vector<Chosen> all;
  for (const auto& [key, curve] : run.curves) {
    if (!is_curve_of(key.metric, metric) || key.of_epochs == has_windows || std::isnan(curve.mean())) continue;
    all.push_back({&curve, curve_name(key, metric), key.of_epochs});
  }
  if (all.size() > kWorkersMax) return three_of(std::move(all));
  if (all.size() == 1) all[0].name.clear();
  return all;
}

std::vector<Point> points_of(const Curve& curve, PlotOver over) {
  std::vector<Point> points;
  double before = -std::numeric_limits<double>::infinity();
  for (const Measured& measured : curve.points()) {
    const double x = place_of(measured.at, over);
    if (std::isnan(x)) continue;
    if (x < before) points.push_back({x, kUnknown});  // the run was resumed from an earlier point, so a new line begins
    points.push_back({x, measured.value});
    before = x;
  }
  return points;
}

// Converts the chart's times to minutes or hours if they are long.
void choose_time_unit(Chart& chart) {
  double longest = 0;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) longest = std::max(longest, point.x);
  }
  const double unit = longest > 3 * 3600 ? 3600 : longest > 300 ? 60 : 1;
  chart.x.unit = unit == 3600 ? "h" : unit == 60 ? "min" : "s";
  for (Series& series : chart.series) {
    for (Point& point : series.points) point.x /= unit;
  }
  for (ChartEvent& event : chart.events) event.x /= unit;
}

class Plotter {
 public:
  Plotter(std::span<const Run> runs, const std::vector<std::string>& metrics, PlotOver over)
      : runs_(runs), metrics_(metrics), over_(over) {}

  void add(const Run& run, size_t number, const std::string& metric, size_t metric_number, Chart& chart) const {
    const bool of_job = is_of_job(metric);
    const std::vector<Chosen> all = of_job ? curves_of_job(run, metric) : curves_of_processes(run, metric);
    for (const Chosen& chosen : all) {
      Series series{
          .points = points_of(*chosen.curve, over_), .has_markers = chosen.of_epochs, .is_stair = metric == "lr"};
      if (series.points.empty()) continue;
      series.name = name_of(run, metric, chosen.name);
      const size_t in_order = chart.series.size();
      const size_t color = !of_job ? in_order : runs_.size() > 1 ? number : metric_number;
      series.color = static_cast<int>(color % kSeriesColors);
      const size_t dash = !of_job
                              ? in_order / kSeriesColors
                              : number / kSeriesColors +
                                    (runs_.size() > 1 && metric.starts_with("train_") && metrics_.size() > 1 ? 1 : 0);
      series.dash = static_cast<int>(dash % kDashes);
      chart.series.push_back(std::move(series));
    }
  }

 private:
  [[nodiscard]] std::string name_of(const Run& run, const std::string& metric, const std::string& process) const {
    std::string name = runs_.size() > 1 ? printable(run.name) : "";
    const auto add = [&](const std::string& part) {
      if (!part.empty()) name += (name.empty() ? "" : ", ") + part;
    };
    add(process);
    if (metrics_.size() > 1) add(role_of(metric, quantity_of(metric)));
    return name.empty() ? title_of(metric) : name;
  }

  std::span<const Run> runs_;
  const std::vector<std::string>& metrics_;
  PlotOver over_;
};

std::set<std::string> metrics_of(std::span<const Run> runs) {
  std::set<std::string> all;
  for (const Run& run : runs) all.merge(run.metrics());
  return all;
}

// Groups the metrics that share a chart, in the order in which they were requested.
std::vector<std::vector<std::string>> grouped(const std::vector<std::string>& metrics) {
  std::vector<std::vector<std::string>> groups;
  for (const std::string& metric : metrics) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const std::vector<std::string>& group) {
      return quantity_of(group[0]) == quantity_of(metric);
    });
    if (same == groups.end()) {
      groups.push_back({metric});
    } else if (std::find(same->begin(), same->end(), metric) == same->end()) {
      same->push_back(metric);
    }
  }
  return groups;
}

Result<std::vector<std::string>> chosen_metrics(std::span<const Run> runs, const std::vector<std::string>& asked) {
  const std::set<std::string> all = metrics_of(runs);
  if (all.empty())
    return fail(Code::kData, "the runs have no metrics, because they ended before the first line was written");
  for (const std::string& metric : asked) {
    if (std::any_of(all.begin(), all.end(), [&](const std::string& name) { return is_curve_of(name, metric); }))
      continue;
    const std::vector<std::string> names(all.begin(), all.end());
    const std::optional<std::string> near = nearest(metric, names);
    return fail(Code::kUsage, "no run has the metric '{}'{}; the runs have: {}", metric,
                near ? fmt::format(" (did you mean '{}'?)", *near) : "", fmt::join(names, ", "));
  }
  if (!asked.empty()) return asked;
  std::vector<std::string> usual;
  for (const char* metric : {"train_cross_entropy", "validation_accuracy", "train_accuracy"}) {
    if (all.contains(metric)) usual.emplace_back(metric);
  }
  if (usual.empty()) usual.push_back(*all.begin());
  return usual;
}

}  // namespace

Chart plot(std::span<const Run> runs, const std::vector<std::string>& metrics, PlotOver over, Scale y_scale) {
  Chart chart;
  const std::string quantity = quantity_of(metrics[0]);
  chart.title = metrics.size() > 1 ? quantity : title_of(metrics[0]);
  if (quantity == "accuracy" && metrics.size() > 1) chart.title = "accuracy of training and validation";
  chart.x = axis_of(over);
  chart.y = {
      .title = metrics.size() > 1 ? quantity : title_of(metrics[0]), .unit = unit_of(metrics[0]), .scale = y_scale};
  const bool is_share = metrics[0].substr(0, metrics[0].find('/')).ends_with("_share");
  chart.y.from_zero = !chart.y.unit.empty() || is_share;
  const Plotter plotter(runs, metrics, over);
  for (size_t number = 0; number < runs.size(); number++) {
    for (size_t i = 0; i < metrics.size(); i++) plotter.add(runs[number], number, metrics[i], i, chart);
    if (runs.size() > 1) continue;
    for (const Resumption& resumption : runs[number].resumptions) {
      if (const double x = place_of(resumption.at, over); !std::isnan(x)) chart.events.push_back({x, "resumed"});
    }
  }
  if (over == PlotOver::kTime) choose_time_unit(chart);
  return chart;
}

Result<std::vector<Chart>> plots(std::span<const Run> runs, const PlotOptions& options) {
  DT_TRY(const std::vector<std::string> metrics, chosen_metrics(runs, options.metrics));
  std::vector<Chart> charts;
  for (const std::vector<std::string>& group : grouped(metrics)) {
    Chart chart = plot(runs, group, options.over, options.y_scale);
    if (chart.series.empty()) {
      return fail(Code::kUsage,
                  "no run has the {} of its {} values: choose another axis with --x step, samples, time or epoch",
                  axis_of(options.over).title, fmt::join(group, " and "));
    }
    charts.push_back(std::move(chart));
  }
  return charts;
}

}  // namespace dtrain::observe
