#include "observe/report/plots.h"

#include "base/file.h"
#include "job/flags/flags.h"
#include "observe/charts/draw.h"
#include "output.h"
#include "tool.h"

namespace dtrain::observe {

constexpr std::array<job::Named<PlotOver>, 4> names_of(PlotOver) {
  return {{{"step", PlotOver::kStep},
           {"samples", PlotOver::kSamples},
           {"time", PlotOver::kTime},
           {"epoch", PlotOver::kEpoch}}};
}

constexpr std::array<job::Named<Scale>, 2> names_of(Scale) {
  return {{{"linear", Scale::kLinear}, {"log", Scale::kLog}}};
}

}  // namespace dtrain::observe

namespace dtrain::cmd {

namespace {

struct PlotFlags {
  std::vector<std::string> metric;
  observe::PlotOver x = observe::PlotOver::kStep;
  observe::Scale y_scale = observe::Scale::kLinear;
  std::string out = "plot.png";
};

constexpr std::string_view kPng = ".png", kSvg = ".svg";

Result<std::string> image_of(const std::vector<observe::Chart>& charts, const std::string& out) {
  const observe::PanelSize size{.width = 860, .plot_height = 300};
  if (out.ends_with(kSvg)) return observe::svg_of(charts, size);
  return observe::png_of(charts, size);
}

}  // namespace

Result<int> plot(const Call& call) {
  const job::FlagTable<PlotFlags> table({
      {.name = "metric",
       .value = "NAME,NAME",
       .help = "metrics to draw, by their names in metrics.jsonl; training and validation share a chart",
       .bind = DT_FIELD(PlotFlags, metric),
       .default_text = "loss and accuracies"},
      {.name = "x",
       .aliases = {"--x"},
       .value = "step|samples|time|epoch",
       .help = "horizontal axis",
       .bind = DT_FIELD(PlotFlags, x)},
      {.name = "y-scale", .value = "linear|log", .help = "vertical axis", .bind = DT_FIELD(PlotFlags, y_scale)},
      {.name = "out",
       .value = "FILE",
       .help = "image to write, FILE.png or FILE.svg",
       .bind = DT_FIELD(PlotFlags, out)},
  });
  constexpr size_t kRunsMax = 50;
  DT_TRY(const ToolLine<PlotFlags> line,
         read_tool_line(table, "dtrain plot RUN-DIRECTORY|LOG... [FLAGS]", call, 1, kRunsMax));
  if (line.help) return 0;
  const PlotFlags& flags = line.options;
  DT_TRY_VOID(check_ending(flags.out, {kPng, kSvg}));
  DT_TRY(const std::vector<observe::Run> runs, observe::read_runs(line.positionals));
  DT_TRY(const std::vector<observe::Chart> charts,
         observe::plots(runs, {.metrics = flags.metric, .over = flags.x, .y_scale = flags.y_scale}));
  DT_TRY(const std::string image, image_of(charts, flags.out));
  DT_TRY_VOID(write_file_atomic(flags.out, image));
  fmt::print("wrote {}\n", flags.out);
  return 0;
}

}  // namespace dtrain::cmd
