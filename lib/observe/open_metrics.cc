#include "observe/open_metrics.h"

#include <fmt/core.h>

#include <cmath>

namespace dtrain::observe {
namespace {

using telemetry::Kind;
using telemetry::MetricInfo;
using telemetry::Sample;
using telemetry::Unit;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

// Appends the metric families to the text, one after another.
class Writer {
 public:
  Writer(const std::string& job, MetricsForm form) : job_(escaped(job)), form_(form) {}

  void family(const MetricInfo& info) {
    name_ = telemetry::open_metrics_name(info);
    scale_ = info.unit == Unit::kMilliseconds ? 1e-3 : 1;
    const bool is_open = form_ == MetricsForm::kOpenMetrics;
    const std::string family = name_ + (info.kind == Kind::kCounter && !is_open ? "_total" : "");
    text_ += fmt::format("# TYPE {} {}\n", family, telemetry::name_of(info.kind));
    if (const std::string_view unit = unit_suffix(info.unit); is_open && !unit.empty()) {
      text_ += fmt::format("# UNIT {} {}\n", family, unit);
    }
    text_ += fmt::format("# HELP {} {}\n", family, escaped(info.help));
  }

  void sample(const MetricInfo& info, const Source& source, const Sample& sample) {
    std::string labels = fmt::format(R"(job="{}",role="{}",rank="{}",host="{}")", job_, escaped(source.role),
                                     source.rank, escaped(source.host));
    if (!info.label.empty()) labels += fmt::format(R"(,{}="{}")", info.label, escaped(sample.label));
    if (info.kind == Kind::kHistogram) return histogram(info, labels, sample);
    line(info.kind == Kind::kCounter ? "_total" : "", labels, sample.value * scale_);
  }

  std::string finish() { return std::move(text_) + (form_ == MetricsForm::kOpenMetrics ? "# EOF\n" : ""); }

 private:
  static std::string_view unit_suffix(Unit unit) {
    switch (unit) {
      case Unit::kSeconds:
      case Unit::kMilliseconds: return "seconds";
      case Unit::kBytes: return "bytes";
      case Unit::kWatts: return "watts";
      case Unit::kCelsius: return "celsius";
      default: return "";
    }
  }

  void line(const char* suffix, const std::string& labels, double value) {
    text_ += fmt::format("{}{}{{{}}} {}\n", name_, suffix, labels, number(value));
  }

  void histogram(const MetricInfo& info, const std::string& labels, const Sample& sample) {
    uint64_t below = 0;
    for (size_t i = 0; i < sample.counts.size(); i++) {
      below += sample.counts[i];
      const std::string bound = i < info.bounds.size() ? number(info.bounds[i]) : "+Inf";
      line("_bucket", fmt::format(R"({},le="{}")", labels, bound), static_cast<double>(below));
    }
    line("_count", labels, static_cast<double>(below));
    line("_sum", labels, sample.value);
  }

  std::string job_, text_, name_;
  MetricsForm form_;
  double scale_ = 1;
};

}  // namespace

std::string open_metrics_text(const std::string& job, std::span<const Source> sources, MetricsForm form) {
  Writer writer(job, form);
  for (const MetricInfo& info : telemetry::catalogue()) {
    bool begun = false;
    for (const Source& source : sources) {
      for (const Sample& sample : source.snapshot) {
        if (sample.metric != info.metric) continue;
        if (!begun) writer.family(info);
        begun = true;
        writer.sample(info, source, sample);
      }
    }
  }
  return writer.finish();
}

}  // namespace dtrain::observe
