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
  std::vector<std::string> metrics;  // empty: loss and accuracies, those that the runs have
  PlotOver over = PlotOver::kStep;
  Scale y_scale = Scale::kLinear;
};

// A chart of several metrics with one unit, such as the accuracies of training and validation. Of metrics that all
// workers have alike, such as the loss, it has one line a run, that of the first worker; of others, such as
// throughput, a line a worker, or the lowest, the middle and the highest one if there are many. The chart is empty if
// no run has values.
Chart plot(std::span<const Run> runs, const std::vector<std::string>& metrics, PlotOver over, Scale y_scale);

// The charts that options ask for. Code::kUsage if no run has a metric, with the names of those that exist, or if
// none has it over this axis.
Result<std::vector<Chart>> plots(std::span<const Run> runs, const PlotOptions& options);

}  // namespace dtrain::observe
