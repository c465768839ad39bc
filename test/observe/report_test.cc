// Plots and reports of runs.
#include "observe/report/report.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <regex>

#include "observe/charts/draw.h"
#include "observe/report/plots.h"
#include "run_files.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::observe;
using Catch::Matchers::Contains;
using dtrain::test::must;
using dtrain::test::TempDir;

namespace {

std::vector<std::string> names_in(const Chart& chart) {
  std::vector<std::string> names;
  for (const Series& series : chart.series) names.push_back(series.name);
  return names;
}

using Names = std::vector<std::string>;

class Runs {
 public:
  Runs() {
    test::write_run(dir_.path("a"));
    test::write_run(dir_.path("b"), "0.1");
    must(write_file_atomic(dir_.path("old.log"), test::kLogOf07));
  }
  [[nodiscard]] std::vector<Run> read(const std::vector<std::string>& names) const {
    std::vector<std::string> paths;
    for (const std::string& name : names) paths.push_back(dir_.path(name));
    return must(read_runs(paths));
  }

 private:
  TempDir dir_;
};

}  // namespace

TEST_CASE("without a choice the loss and the accuracies are plotted", "[observe]") {
  const Runs runs;
  const std::vector<Chart> charts = must(plots(runs.read({"a"}), {}));
  REQUIRE(charts.size() == 2);
  CHECK(charts[0].title == "training loss (cross-entropy)");
  CHECK(charts[1].title == "accuracy of training and validation");
  CHECK(names_in(charts[1]) == Names{"validation", "training"});
  CHECK(charts[1].series[0].points == std::vector<Point>{{20, 0.8}, {40, 0.9}});
  CHECK(charts[1].series[0].has_markers);
}

TEST_CASE("a run of dtrain and a log of MXNet stand in one image", "[observe]") {
  const Runs runs;
  const std::vector<Run> both = runs.read({"a", "old.log"});
  for (const PlotOver over : {PlotOver::kStep, PlotOver::kSamples, PlotOver::kTime, PlotOver::kEpoch}) {
    const std::vector<Chart> charts = must(plots(both, {.metrics = {"validation_accuracy"}, .over = over}));
    REQUIRE(charts.size() == 1);
    CHECK(names_in(charts[0]) == Names{"a", "old.log"});
    CHECK(charts[0].series[1].points[0].y == 0.3);
    CHECK(charts[0].series[0].color != charts[0].series[1].color);
  }
}

TEST_CASE("twenty runs look different", "[observe]") {
  const TempDir dir;
  std::vector<std::string> paths;
  for (int i = 0; i < 20; i++) {
    paths.push_back(dir.path(fmt::format("run{}", i)));
    test::write_run(paths.back());
  }
  const Chart chart = must(plots(must(read_runs(paths)), {.metrics = {"validation_accuracy"}}))[0];
  REQUIRE(chart.series.size() == 20);
  const std::string svg = svg_of(chart, {.width = 460, .plot_height = 200}, false);
  for (size_t i = 0; i < 20; i++) {
    CHECK_THAT(svg, Contains(fmt::format(">run{}</text>", i)));
    for (size_t j = 0; j < i; j++) {
      CHECK((chart.series[i].color != chart.series[j].color || chart.series[i].dash != chart.series[j].dash));
    }
  }
}

TEST_CASE("throughput has a line a worker, staleness one a server", "[observe]") {
  const Runs runs;
  const std::vector<Run> read = runs.read({"a"});
  CHECK(names_in(must(plots(read, {.metrics = {"samples_per_s"}}))[0]) == Names{"worker 0", "worker 1"});
  CHECK(names_in(must(plots(read, {.metrics = {"staleness_mean"}}))[0]) == Names{"server 0", "server 1"});
  CHECK(must(plots(read, {.metrics = {"samples_per_s"}}))[0].y.unit == "samples/s");
}

TEST_CASE("a metric with a label has a line for each label", "[observe]") {
  std::vector<Run> runs(1);
  for (const char* metric : {"gpu_busy_share/0", "gpu_busy_share/1", "gpu_busy_shares"}) {
    runs[0].curves[{metric, false, "worker", 2}].add({{.step = 1}, 0.5});
  }
  CHECK(names_in(must(plots(runs, {.metrics = {"gpu_busy_share"}}))[0]) ==
        Names{"worker 2, device 0", "worker 2, device 1"});
  CHECK(must(plots(runs, {.metrics = {"gpu_busy_share"}}))[0].y.from_zero);
  CHECK(must(plots(runs, {.metrics = {"gpu_busy_share/1"}}))[0].series.size() == 1);
  CHECK(plots(runs, {.metrics = {"gpu_busy"}}).error().code == Code::kUsage);
  CHECK_THAT(report_page(runs, "dtrain"), Contains("when a line was written") && !Contains("resident memory"));
}

TEST_CASE("of many workers the lowest, the middle and the highest one are drawn", "[observe]") {
  Run run;
  for (int64_t rank = 0; rank < 100; rank++) {
    for (int step = 0; step < 3; step++) {
      run.curves[{"samples_per_s", false, "worker", rank}].add({{.step = 1.0 * step}, 100.0 + rank});
    }
  }
  CHECK(names_in(plot(std::vector{run}, {"samples_per_s"}, PlotOver::kStep, Scale::kLinear)) ==
        Names{"worker 0 (lowest)", "worker 50 (median)", "worker 99 (highest)"});
}

TEST_CASE("an unknown metric is refused with those that exist", "[observe]") {
  const Runs runs;
  const std::vector<Run> read = runs.read({"a"});
  const Error error = plots(read, {.metrics = {"train_acuracy"}}).error();
  CHECK(error.code == Code::kUsage);
  CHECK_THAT(error.message, Contains("no run has the metric 'train_acuracy' (did you mean 'train_accuracy'?); ") &&
                                Contains("the runs have: bad_records, lr, samples_per_s, ") &&
                                Contains("wait_network_s"));
  const Error no_place = plots(read, {.metrics = {"staleness_mean"}, .over = PlotOver::kSamples}).error();
  CHECK_THAT(no_place.message, Contains("choose another axis with --x"));
  CHECK(plots(std::vector<Run>(1), {}).error().code == Code::kData);
}

TEST_CASE("the line of a run that went back to a checkpoint starts again there", "[observe]") {
  Run run;
  for (const double step : {10, 20, 15, 25}) run.curves[{"lr", false, "worker", 0}].add({{.step = step}, 1});
  run.resumptions.push_back({{.step = 15}});
  const Chart chart = plot(std::vector{run}, {"lr"}, PlotOver::kStep, Scale::kLinear);
  REQUIRE(chart.series[0].points.size() == 5);
  CHECK(std::isnan(chart.series[0].points[2].y));
  CHECK(chart.series[0].points[3].x == 15);
  REQUIRE(chart.events.size() == 1);
  CHECK(chart.events[0].x == 15);
}

TEST_CASE("long times are in minutes and hours", "[observe]") {
  Run run;
  Curve& curve = run.curves[{"lr", false, "worker", 0}];
  curve.add({{.seconds = 0}, 1});
  curve.add({{.seconds = 7200}, 2});
  CHECK(plot(std::vector{run}, {"lr"}, PlotOver::kTime, Scale::kLinear).x.unit == "min");
  curve.add({{.seconds = 72000}, 2});
  const Chart chart = plot(std::vector{run}, {"lr"}, PlotOver::kTime, Scale::kLinear);
  CHECK(chart.x.unit == "h");
  CHECK(chart.series[0].points.back().x == 20);
}

TEST_CASE("a report says of all workers where their time went, as the log does", "[observe]") {
  const Runs runs;
  std::vector<Run> read = runs.read({"a"});
  read[0].summary["time_shares"] = {{"data_wait", 0.02}, {"compute", 0.4}, {"push", 0.01}, {"pull_wait", 0.57}};
  const std::string html = report_page(read, "dtrain 0.9.0");
  CHECK_THAT(html,
             Contains("of the workers&#39; time, computing took 40 %, waiting for data 2 %, sending gradients 1 %, "
                      "waiting for weights 57 %"));
  CHECK_THAT(html, Contains("waiting for weights</th><td>57 %"));
  CHECK_THAT(html, !Contains("waiting for other devices"));
  read[0].summary["time_shares"] = {{"data_wait", "much"}};
  CHECK_THAT(report_page(read, "dtrain 0.9.0"), Contains("10 % of worker 0&#39;s time was spent waiting for other"));
}

// summary.json is written by the process that ended the run, and counts from its beginning.
TEST_CASE("a report of a resumed run says which figures count from then on", "[observe]") {
  const Runs runs;
  std::vector<Run> read = runs.read({"a", "b"});
  read[0].resumptions.push_back({{.step = 20}});
  read[0].wall_seconds[0] = 24;
  const std::string html = report_page(read, "dtrain");
  CHECK_THAT(html, Contains("<td>320 samples/s since the run was resumed</td><td>320 samples/s</td>"));
  CHECK_THAT(html, Contains("<td>24 s, of which 2.0 s since the run was resumed</td><td>2.0 s</td>"));
  CHECK_THAT(html, Contains("<td>42 % since the run was resumed</td><td>42 %</td>"));
  CHECK_THAT(html, Contains("validation 0.8: 1.2 s since the run was resumed</td>"));
  CHECK_THAT(html, Contains("<li>These figures cover only the time since the run was resumed.</li>"));
  // The means of the curves are of all processes.
  read[0].summary = nullptr;
  CHECK_THAT(report_page(std::span(read).first(1), "dtrain"), !Contains("since the run was resumed"));
}

TEST_CASE("a report has all that is known of the runs", "[observe]") {
  const Runs runs;
  const std::string html = report_page(runs.read({"a", "b", "old.log"}), "dtrain 0.9.0");
  for (const char* part : {"<!DOCTYPE html>",
                           "lang=\"en\"",
                           "name=\"viewport\"",
                           "What ran, and how it ended",
                           "320 samples/s",
                           "completed",
                           "Data is the limit: 42 % of worker 0&#39;s time",
                           "10 % of worker 0&#39;s time was spent waiting for other devices",
                           "Where the time went",
                           "worker 1, forward: 4 s",
                           "worker 0, waiting for data: ",
                           "Settings in which the runs differ",
                           "<th scope=\"row\">lr</th><td>0.05</td><td>0.1</td><td>0.05</td>",
                           "server 1</th><td>1.50</td><td>5</td>",
                           "0.9.0-1",
                           "2 x cpu(0)",
                           "104 MiB",
                           "skipped broken record 1",
                           "validation 0.8: 1.2 s",
                           "Made by dtrain 0.9.0"}) {
    CHECK_THAT(html, Contains(part));
  }
  CHECK_THAT(html, !Contains("data_wait"));
  // A setting that only the log lacks is no difference.
  CHECK_THAT(html, !Contains("<th scope=\"row\">batches</th>"));
  CHECK(std::count(html.begin(), html.end(), '\0') == 0);
}

// What a page with outside addresses or scripts would have. Namespaces of SVG are names, not addresses.
TEST_CASE("a report needs nothing else", "[observe]") {
  const Runs runs;
  std::string html = report_page(runs.read({"a", "b"}), "dtrain");
  html = std::regex_replace(html, std::regex("xmlns=\"http://www.w3.org/2000/svg\""), "");
  for (const char* part :
       {"http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link", "<img", "onload"}) {
    CHECK_THAT(html, !Contains(part));
  }
}

TEST_CASE("every image and control of a report has a name for people who do not see it", "[observe]") {
  const Runs runs;
  const std::string html = report_page(runs.read({"a"}), "dtrain");
  const auto count = [&](const std::string& expression) {
    const std::regex pattern(expression);
    return std::distance(std::sregex_iterator(html.begin(), html.end(), pattern), std::sregex_iterator());
  };
  CHECK(count("<svg ") > 8);
  CHECK(count("<svg ") == count("<svg [^>]*role=\"img\" aria-label=\"[^\"]{40,}\""));
  CHECK(count("<figure>") == count("<figcaption>"));
  CHECK(count("<table>") == count("<table><caption>"));
  CHECK(count("<input ") == 4);
  CHECK(count("<label for=") == 4);
  CHECK(count(" checked>") == 1);
}

TEST_CASE("a report says if files do not tell the settings", "[observe]") {
  const TempDir dir;
  must(write_file_atomic(dir.path("a.log"), "INFO:root:Epoch[0] Train-accuracy=0.5\n"));
  must(write_file_atomic(dir.path("b.log"), "INFO:root:Namespace(depth=50)\nINFO:root:Epoch[0] Train-accuracy=0.6\n"));
  const std::string html = report_page(must(read_runs({dir.path("a.log"), dir.path("b.log")})), "dtrain");
  CHECK_THAT(html, Contains("Not all of the files state the settings."));
}

TEST_CASE("a report of an unfinished, nearly empty run says what is missing", "[observe]") {
  const TempDir dir;
  must(make_directories(dir.path("new")));
  must(write_file_atomic(dir.path("new/jobspec"), "network = <b>lenet</b>\n"));
  const std::string html = report_page(must(read_runs({dir.path("new")})), "dtrain");
  CHECK_THAT(html, Contains("The runs have no values to draw.") &&
                       Contains("the run has not ended, or it was killed") &&
                       Contains("metrics.jsonl: the file is missing") && Contains("&lt;b&gt;lenet"));
  CHECK_THAT(html, !Contains("<b>lenet"));
}

namespace {

telemetry::ClassResults results_of(int64_t rank, int64_t epoch) {
  telemetry::ClassResults results{.epoch = epoch,
                                  .step = 20,
                                  .rank = rank,
                                  .workers = 2,
                                  .images = 200,
                                  .class_names = {"cat", "<b>dog"},
                                  .worst = {{.label = 1,
                                             .prediction = 0,
                                             .probability = 0.9,
                                             .loss = 3.0 + static_cast<double>(rank),
                                             .name = "a&b.rec",
                                             .image = "Zm9v"}}};
  results.counts.add(0, 0, 50);
  results.counts.add(1, 1, 40 + 5 * rank);
  results.counts.add(1, 0, 10 - 5 * rank);
  return results;
}

void write(const std::string& directory, const telemetry::ClassResults& results) {
  must(write_file_atomic(directory + "/" + telemetry::class_results_file(results.rank), telemetry::to_json(results)));
}

}  // namespace

TEST_CASE("a report has the classes of all workers' last validation", "[observe]") {
  const TempDir dir;
  test::write_run(dir.path("a"));
  CHECK_THAT(report_page(must(read_runs({dir.path("a")})), "dtrain"), !Contains("Classes and images"));
  write(dir.path("a"), results_of(0, 1));
  write(dir.path("a"), results_of(1, 1));
  write(dir.path("a"), results_of(2, 1));  // of a run with more workers, before it was resumed
  const std::string html = report_page(must(read_runs({dir.path("a")})), "dtrain");
  CHECK_THAT(html, Contains("in epoch 2, after update 20: 185 of 200 images were classified correctly (0.9250)") &&
                       !Contains("These are not all"));
  CHECK_THAT(
      html,
      Contains("&lt;b&gt;dog</th><td>0.8500</td><td>85</td><td>100</td>") &&
          Contains("<li>&lt;b&gt;dog classified as cat: 15 of 100</li>") &&
          Contains("<td class=\"wrong\" style=\"background:rgb(213 94 0/0.27)\">15</td><td class=\"right\">85</td>"));
  CHECK_THAT(html, Contains("The 2 images with the highest loss") && Contains("data:image/png;base64,Zm9v") &&
                       Contains("a&amp;b.rec") && !Contains("<b>dog"));
  CHECK(html.find("loss 4.00") < html.find("loss 3.00"));
}

TEST_CASE("a report says if the images of a worker are missing", "[observe]") {
  const TempDir dir;
  test::write_run(dir.path("a"));
  write(dir.path("a"), results_of(0, 1));
  write(dir.path("a"), results_of(1, 0));  // of an older validation
  must(write_file_atomic(dir.path("a/validation-2.json"), "{"));
  const std::string html = report_page(must(read_runs({dir.path("a")})), "dtrain");
  CHECK_THAT(html, Contains("90 of 100 images were classified correctly") &&
                       Contains("These are not all of the 200 images that were validated") &&
                       Contains("validation-2.json: the file is not a JSON object"));
}

TEST_CASE("a report has the last validation although worker 0 was lost before it", "[observe]") {
  const TempDir dir;
  test::write_run(dir.path("a"));
  write(dir.path("a"), results_of(0, 0));
  write(dir.path("a"), results_of(1, 1));
  CHECK_THAT(report_page(must(read_runs({dir.path("a")})), "dtrain"),
             Contains("in epoch 2, after update 20: 95 of 100 images were classified correctly"));
}

TEST_CASE("of many classes a report shows the most confused ones, and says so", "[observe]") {
  Run run;
  run.validation.emplace();
  for (int64_t i = 0; i < 1000; i++) {
    run.validation->counts.add(i, i, 90);
    run.validation->counts.add(i, (i + 1) % 1000, i % 100);
  }
  const std::string html = report_page(std::vector{run}, "dtrain");
  CHECK_THAT(html, Contains("Confusion matrix of only the 20 most confused of 1,000 classes") &&
                       Contains("<th scope=\"col\">others</th>") &&
                       Contains("And 980 more classes, with an accuracy of"));
  CHECK(html.size() < 60'000);
}
