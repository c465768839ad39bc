// Charts of the metrics of one or several runs.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "observe/charts/chart.h"
#include "observe/runs/run.h"

namespace dtrain::observe {

enum class PlotOver : uint8_t { kStep, kSamples, kTime, kEpoch };

struct PlotOptions {
  std::vector<std::string> metrics;  // metrics to show; empty: loss and accuracies, if the runs have them
  PlotOver over = PlotOver::kStep;
  Scale y_scale = Scale::kLinear;
};

// A chart of several metrics with one unit, such as the accuracies of training and validation. A metric that all
// workers share, such as the loss, has one line per run, that of the first worker. Other metrics, such as throughput,
// have one line per worker or, if there are many workers, lines for the lowest, the median and the highest. The chart
// is empty if no run has values.
Chart plot(std::span<const Run> runs, const std::vector<std::string>& metrics, PlotOver over, Scale y_scale);

// The charts that the options ask for. Code::kUsage if no run has a metric (the message lists those that exist), or if
// no run has it over this axis.
Result<std::vector<Chart>> plots(std::span<const Run> runs, const PlotOptions& options);

}  // namespace dtrain::observe
