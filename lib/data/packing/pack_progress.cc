#include "data/packing/pack_progress.h"

#include <algorithm>
#include <cmath>

namespace dtrain::data {
namespace {

// "0:05", "12:40", "3:02:10".
std::string clock_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(std::min(seconds, 1e9)));
  const int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

}  // namespace

std::string progress_text(const std::string& name, const PackState& state) {
  constexpr int64_t kColumns = 20;
  const int64_t filled = state.total > 0 ? kColumns * state.done / state.total : kColumns;
  std::string bar(static_cast<size_t>(filled), '=');
  if (filled < kColumns) bar += '>' + std::string(static_cast<size_t>(kColumns - filled - 1), ' ');
  std::string text = fmt::format("{} [{}] {} %, {} of {} images", name, bar,
                                 state.total > 0 ? 100 * state.done / state.total : 100, state.done, state.total);
  const auto packed = static_cast<double>(state.done - state.done_before);
  if (packed > 0 && state.seconds > 0) {
    const double rate = packed / state.seconds;
    text += fmt::format(", {:.0f} per second, {} left", rate,
                        clock_text(static_cast<double>(state.total - state.done) / rate));
  }
  if (state.skipped > 0) text += fmt::format(", {} skipped", state.skipped);
  return text;
}

PackProgress::PackProgress(std::string name, int64_t done, int64_t total, const Log& log)
    : name_(std::move(name)), state_{.done = done, .total = total, .done_before = done}, log_(log) {}

PackProgress::~PackProgress() {
  log_.live("");
}

void PackProgress::show(int64_t done, int64_t skipped) {
  constexpr auto kInterval = std::chrono::milliseconds(250);
  constexpr auto kFirst = std::chrono::seconds(1);  // a shorter run needs no bar
  const auto now = Clock::now();
  if (now - begin_ < kFirst || now - shown_ < kInterval) return;
  shown_ = now;
  state_.done = done;
  state_.skipped = skipped;
  state_.seconds = std::chrono::duration<double>(now - begin_).count();
  log_.live(progress_text(name_, state_));
}

}  // namespace dtrain::data
