#include "observe/report/report.h"

#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "observe/charts/draw.h"
#include "observe/charts/palette.h"
#include "observe/charts/svg.h"
#include "observe/phases.h"
#include "observe/report/class_section.h"
#include "observe/report/page_style.h"
#include "observe/report/plots.h"
#include "observe/report/tables.h"

namespace dtrain::observe {
namespace {

constexpr size_t kBarsMax = 16;
const PanelSize kFigure{.width = 460, .plot_height = 210};

struct Over {
  PlotOver over;
  const char* id;
  const char* name;
};
constexpr std::array kOvers = {Over{PlotOver::kStep, "step", "steps"}, Over{PlotOver::kSamples, "samples", "samples"},
                               Over{PlotOver::kTime, "time", "time"}, Over{PlotOver::kEpoch, "epoch", "epochs"}};

struct Figure {
  std::vector<std::string> metrics;
  const char* caption;
};

bool has_values(std::span<const Run> runs, const std::string& metric) {
  return std::any_of(runs.begin(), runs.end(), [&](const Run& run) {
    return std::any_of(run.curves.begin(), run.curves.end(), [&](const auto& curve) {
      return is_curve_of(curve.first.metric, metric) && !std::isnan(curve.second.mean());
    });
  });
}

// The metrics of this figure that at least one run has.
std::vector<std::string> metrics_of(std::span<const Run> runs, const Figure& figure) {
  std::vector<std::string> metrics;
  for (const std::string& metric : figure.metrics) {
    if (has_values(runs, metric)) metrics.push_back(metric);
  }
  return metrics;
}

// One figure with a chart for each axis; the buttons above the figures choose which one is visible.
std::string figure_html(std::span<const Run> runs, const Figure& figure, std::span<const Over> overs) {
  const std::vector<std::string> metrics = metrics_of(runs, figure);
  if (metrics.empty()) return {};
  std::string html = "<figure>\n";
  for (const Over& over : overs) {
    const Chart chart = plot(runs, metrics, over.over, Scale::kLinear);
    html += fmt::format("<div class=\"over {}\">{}</div>\n", over.id, svg_of(chart, kFigure, false));
  }
  return html + fmt::format("<figcaption>{}</figcaption></figure>\n", figure.caption);
}

// The axes over which at least one curve of these figures has values.
std::vector<Over> overs_of(std::span<const Run> runs, const std::vector<Figure>& figures) {
  std::vector<Over> overs;
  for (const Over& over : kOvers) {
    const bool has_any = std::any_of(figures.begin(), figures.end(), [&](const Figure& figure) {
      const std::vector<std::string> metrics = metrics_of(runs, figure);
      return !metrics.empty() && !plot(runs, metrics, over.over, Scale::kLinear).series.empty();
    });
    if (has_any) overs.push_back(over);
  }
  return overs;
}

// Buttons that work without a script: the style sheet shows the figures of the selected axis.
std::string over_buttons(std::span<const Over> overs) {
  std::string html = "<legend>Curves over</legend>\n";
  for (const Over& over : overs) {
    html += fmt::format("<input type=\"radio\" name=\"over\" id=\"over-{0}\"{1}><label for=\"over-{0}\">{2}</label>\n",
                        over.id, over.over == overs[0].over ? " checked" : "", over.name);
  }
  return html;
}

std::string curves_section(std::span<const Run> runs) {
  static const std::vector<Figure> figures = {
      {{"train_cross_entropy"},
       "The loss of the training rows of each run's first worker, over the time since the previous point. Lower is "
       "better."},
      {{"validation_accuracy", "train_accuracy"},
       "The share of rows that were classified correctly: validation rows after each epoch, and training rows since "
       "the previous point. A growing gap between the two means that the network is overfitting."},
      {{"validation_top_k_accuracy_5", "train_top_k_accuracy_5"},
       "The share of rows whose class was among the network's first five."},
      {{"lr"}, "The learning rate of the next update."},
      {{"samples_per_s"},
       "The number of samples that each worker trains per second. With more than eight workers: the slowest, the "
       "median and the fastest worker."},
      {{"wait_data_s"}, "How long each worker waited for batches between two lines of its log."},
      {{"wait_network_s"}, "How long each worker waited for other devices and processes between two lines of its log."},
      {{"epoch_s"}, "The time of training in each epoch, without validation."},
      {{"gpu_busy_share"}, "The share of a second or less in which a kernel ran on each GPU, when a line was written."},
      {{"gpu_memory_bytes"}, "The memory of each GPU that is in use, by any process."},
      {{"memory_bytes"}, "The resident memory of each worker's process."},
  };
  const std::vector<Over> overs = overs_of(runs, figures);
  if (overs.empty()) return "<p>The runs have no values to draw.</p>\n";
  std::string html;
  for (const Figure& figure : figures) html += figure_html(runs, figure, overs);
  return fmt::format("<fieldset>{}<div class=\"figures\">\n{}</div></fieldset>\n", over_buttons(overs), html);
}

// The phases in the order in which they occur in a step, followed by all others.
std::vector<std::string> phases_of(std::span<const Run> runs) {
  std::vector<std::string> phases;
  phases.reserve(kPhaseWords.size());
  for (const PhaseWords& phase : kPhaseWords) phases.emplace_back(phase.name);
  std::set<std::string> found;
  for (const Run& run : runs) {
    for (const auto& [series, seconds] : run.phase_seconds) found.insert(series.second);
  }
  std::erase_if(phases, [&](const std::string& phase) { return found.erase(phase) == 0; });
  phases.insert(phases.end(), found.begin(), found.end());
  return phases;
}

std::string bar_name(std::span<const Run> runs, const Run& run, int64_t rank) {
  return runs.size() > 1 ? fmt::format("{}, worker {}", printable(run.name), rank) : fmt::format("worker {}", rank);
}

BarChart phase_chart(std::span<const Run> runs) {
  const std::vector<std::string> phases = phases_of(runs);
  BarChart chart{.title = "Time by phase", .unit = "s", .parts = {}, .bars = {}};
  for (const std::string& phase : phases) chart.parts.push_back(phase_words(phase));
  for (const Run& run : runs) {
    std::map<int64_t, std::vector<double>> values;
    for (const auto& [series, seconds] : run.phase_seconds) {
      const auto at = std::find(phases.begin(), phases.end(), series.second) - phases.begin();
      values.try_emplace(series.first, phases.size()).first->second[static_cast<size_t>(at)] = seconds;
    }
    for (auto& [rank, seconds] : values) chart.bars.push_back({bar_name(runs, run, rank), std::move(seconds)});
  }
  return chart;
}

// The chart for runs whose files have no phases: the waits of all windows, and the remaining time.
BarChart wait_chart(std::span<const Run> runs) {
  BarChart chart{.title = "Waiting and everything else",
                 .unit = "s",
                 .parts = {"waiting for data", "waiting for the network", "everything else"},
                 .bars = {}};
  for (const Run& run : runs) {
    for (const auto& [rank, wall] : run.wall_seconds) {
      const auto waited = [&run, rank = rank](const char* metric) {
        const Curve* curve = run.curve({metric, false, "worker", rank});
        return curve == nullptr ? 0.0 : curve->sum();
      };
      const double data = waited("wait_data_s"), network = waited("wait_network_s");
      chart.bars.push_back({bar_name(runs, run, rank), {data, network, std::max(0.0, wall - data - network)}});
    }
  }
  return chart;
}

std::string time_section(std::span<const Run> runs) {
  BarChart chart = phase_chart(runs);
  const char* caption = "How long each worker's training loop was in each phase.";
  if (chart.bars.empty()) {
    chart = wait_chart(runs);
    caption =
        "How long each worker waited, summed over the log lines within the epochs. Everything else is computation, "
        "validation and checkpoints.";
  }
  if (chart.bars.empty()) return "<p>The files do not state how long the workers waited.</p>\n";
  const size_t all = chart.bars.size();
  if (all > kBarsMax) chart.bars.resize(kBarsMax);
  std::string html = fmt::format("<figure>{}<figcaption>{}{}</figcaption></figure>\n",
                                 svg_of(chart, {.width = 700, .plot_height = 0}, false), caption,
                                 all > kBarsMax ? fmt::format(" {} more workers are not shown.", all - kBarsMax) : "");
  return "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Where the time went\">" + html + "</div>\n";
}

std::string section(const char* id, const char* title, const std::string& content) {
  if (content.empty()) return {};
  return fmt::format("<section id=\"{}\"><h2>{}</h2>\n{}</section>\n", id, title, content);
}

std::string names_of(std::span<const Run> runs) {
  std::string names;
  for (const Run& run : runs) names += (names.empty() ? "" : ", ") + printable(run.name);
  return markup_text(printable(names, 300));
}

}  // namespace

std::string report_page(std::span<const Run> runs, const std::string& made_by) {
  const std::string names = names_of(runs);
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>Training report: {}</title>\n<style>\n{}{}</style>"
      "</head>\n<body><main>\n<h1>Training report</h1>\n<p class=\"names\">{}</p>\n",
      names, report_style(), page_style(), names);
  html += section("results", "Results", result_table(runs));
  html += section("slow", "What was slow, and why", slow_section(runs));
  html += section("curves", "Curves", curves_section(runs));
  html += section("classes", "Classes and images", class_section(runs));
  html += section("time", "Where the time went", time_section(runs));
  html += section("staleness", "Staleness", staleness_table(runs));
  html += section("differences", "Differences in the settings", difference_table(runs));
  html += section("environment", "Environment", environment_table(runs));
  html += section("messages", "Warnings and errors", message_section(runs));
  return html + fmt::format("<footer>Made by {}.</footer>\n</main></body></html>\n", markup_text(made_by));
}

}  // namespace dtrain::observe
