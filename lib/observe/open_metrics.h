// Writes metrics as text for Prometheus and compatible programs: OpenMetrics 1.0.0.
// Source: https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
#pragma once

#include <span>
#include <string>

#include "observe/source.h"

namespace dtrain::observe {

enum class MetricsForm {
  kOpenMetrics,
  kPrometheus,  // the older text format: counter names end in "_total", and there are no units and no end marker
};
// The content type of the text.
inline constexpr const char* kOpenMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8";
inline constexpr const char* kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

// Writes one family of samples for each metric that a source has, with the labels job, role, rank and host. Values that
// are not finite are written as NaN, +Inf and -Inf. The OpenMetrics form ends with "# EOF".
std::string open_metrics_text(const std::string& job, std::span<const Source> sources,
                              MetricsForm form = MetricsForm::kOpenMetrics);

}  // namespace dtrain::observe
