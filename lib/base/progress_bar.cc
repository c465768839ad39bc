#include "base/progress_bar.h"

#include "base/duration_text.h"

namespace dtrain {
namespace {

constexpr auto kFirst = std::chrono::seconds(1);  // work that takes less time than this shows no bar
constexpr auto kInterval = std::chrono::milliseconds(250);
constexpr double kMega = 1e6;

std::string amount_text(const Work& work, int64_t done) {
  if (!work.unit.empty()) {
    return work.total > 0 ? fmt::format("{} of {} {}", done, work.total, work.unit)
                          : fmt::format("{} {}", done, work.unit);
  }
  const double mega = static_cast<double>(done) / kMega;
  return work.total > 0 ? fmt::format("{:.1f} of {:.1f} MB", mega, static_cast<double>(work.total) / kMega)
                        : fmt::format("{:.1f} MB", mega);
}

std::string rate_text(const Work& work, double rate) {
  if (work.unit.empty()) return fmt::format("{:.1f} MB/s", rate / kMega);
  return rate < 10 ? fmt::format("{:.1f}/s", rate) : fmt::format("{:.0f}/s", rate);
}

}  // namespace

Live progress_of(const Work& work, int64_t done, int64_t done_before, double seconds, const std::string& more) {
  std::string text = work.name;
  std::optional<double> share;
  if (work.total > 0) {
    share = static_cast<double>(done) / static_cast<double>(work.total);
    text += fmt::format("  {:.0f} %", 100 * *share);
  }
  text += "  " + amount_text(work, done);
  const double rate = seconds > 0 ? static_cast<double>(done - done_before) / seconds : 0;
  if (rate > 0) {
    text += "  " + rate_text(work, rate);
    const double left = static_cast<double>(work.total - done) / rate;
    if (left > 0) text += "  ETA " + long_duration_text(std::chrono::duration<double>(left));
  }
  if (!more.empty()) text += "  " + more;
  return {std::move(text), share};
}

ProgressBar::~ProgressBar() {
  if (is_shown_) show_({});
}

void ProgressBar::show(int64_t done, const std::string& more) {
  const auto now = Clock::now();
  if (!done_before_) done_before_ = done;
  if (now - begin_ < kFirst || now - shown_ < kInterval) return;
  shown_ = now;
  is_shown_ = true;
  show_(progress_of(work_, done, *done_before_, std::chrono::duration<double>(now - begin_).count(), more));
}

}  // namespace dtrain
