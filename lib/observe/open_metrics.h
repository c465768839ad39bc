// Metrics as text for Prometheus and its kin: OpenMetrics 1.0.0.
// Source: https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
#pragma once

#include <span>
#include <string>

#include "observe/source.h"

namespace dtrain::observe {

// The content type of the text.
inline constexpr const char* kOpenMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8";

// One family of samples per metric that a source has, each with the labels job, role, rank and host. Values that are not
// finite are written as NaN, +Inf and -Inf. Ends with "# EOF".
std::string open_metrics_text(const std::string& job, std::span<const Source> sources);

}  // namespace dtrain::observe
