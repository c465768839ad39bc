#include "train/thread_tuner.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/median.h"

namespace dtrain::train {
namespace {

constexpr size_t kPairs = 5;
// A change counts as a gain if the median of the pairs' time ratios is at most this; a smaller gain may be noise.
constexpr double kBetter = 0.98;
constexpr size_t kPairsBetter = 4;

// The length of a block: long enough for a meaningful mean, and short enough that the host's speed changes little
// between blocks.
constexpr double kBlock_s = 0.5;
constexpr int64_t kBlockStepsMin = 4, kBlockStepsMax = 500;

// If the steps wait for data for a smaller share of the time, more decode threads are not worthwhile.
constexpr double kWaits = 0.02;
// The length of a window in the steady state. Tuning begins again if the share of waits differs by kChange in
// kWindowsChanged windows in a row.
constexpr double kWindow_s = 10, kChange = 0.15;
constexpr int kWindowsChanged = 3;
constexpr int64_t kWindowStepsMin = 20;

}  // namespace

ThreadTuner::ThreadTuner(const Options& options)
    : options_(options), kept_(options.threads), in_use_(options.threads), settling_(options.settle_steps) {}

void ThreadTuner::step(double seconds, double wait_s) {
  if (settling_ > 0) {
    settling_--;
    return;
  }
  block_.steps++;
  block_.seconds += seconds;
  block_.wait_s += wait_s;
  switch (phase_) {
    case Phase::kMeasure:
      if (block_.steps >= kBlockStepsMin && (block_.seconds >= kBlock_s || block_.steps >= kBlockStepsMax))
        end_measuring();
      break;
    case Phase::kCompare:
      if (block_.steps >= block_steps_) end_block();
      break;
    case Phase::kSteady:
      if (block_.steps >= kWindowStepsMin && block_.seconds >= kWindow_s) watch();
      break;
  }
}

void ThreadTuner::begin_measuring() {
  phase_ = Phase::kMeasure;
  block_ = {};
  settling_ = options_.settle_steps;
  compared_.clear();
}

void ThreadTuner::end_measuring() {
  block_steps_ = block_.steps;
  wait_share_ = block_.seconds > 0 ? block_.wait_s / block_.seconds : 0;
  const std::optional<int> more = wait_share_ > kWaits ? neighbor(true) : std::nullopt;
  const std::optional<int> fewer = neighbor(false);
  more_ = more.has_value();
  may_turn_ = more && fewer;
  if (!more && !fewer) return be_steady();
  compare_with(more ? *more : *fewer);
}

// The next number to try: half as many threads again, or a third fewer. So four comparisons lead from 4 threads to 16.
std::optional<int> ThreadTuner::neighbor(bool more) const {
  const int next =
      more ? std::min(options_.threads_max, kept_ + std::max(1, kept_ / 2)) : kept_ - std::max(1, kept_ / 3);
  return next == kept_ || next < 1 ? std::nullopt : std::optional(next);
}

void ThreadTuner::compare_with(int other) {
  phase_ = Phase::kCompare;
  other_ = other;
  kept_ms_.clear();
  other_ms_.clear();
  block_ = {};
  settling_ = in_use_ == kept_ ? 0 : options_.settle_steps;
  in_use_ = kept_;
}

void ThreadTuner::end_block() {
  const double ms = 1e3 * block_.seconds / static_cast<double>(block_.steps);
  (in_use_ == kept_ ? kept_ms_ : other_ms_).push_back(ms);
  block_ = {};
  settling_ = options_.settle_steps;
  if (other_ms_.size() == kPairs) return end_comparison();
  in_use_ = in_use_ == kept_ ? other_ : kept_;
}

void ThreadTuner::end_comparison() {
  std::vector<double> ratios;
  for (size_t pair = 0; pair < kPairs; pair++)
    ratios.push_back(kept_ms_[pair] > 0 ? other_ms_[pair] / kept_ms_[pair] : 1);
  const double ratio = median(ratios);
  const bool better = ratio < kBetter && std::ranges::count_if(ratios, [](double r) { return r < 1; }) >=
                                             static_cast<int64_t>(kPairsBetter);
  compared_.push_back(fmt::format("{:.2f} ms with {}, {:.2f} ms with {} ({:.3f}{})", median(kept_ms_), kept_,
                                  median(other_ms_), other_, ratio, better ? ", kept" : ""));
  if (better) {
    kept_ = other_;
    may_turn_ = false;
  }
  try_next(better);
}

// Continues in a direction that helped. If the first step in a direction did not help, tries the other direction once.
void ThreadTuner::try_next(bool other_was_better) {
  std::optional<int> next;
  if (other_was_better) {
    next = neighbor(more_);
  } else if (std::exchange(may_turn_, false)) {
    more_ = !more_;
    next = neighbor(more_);
  }
  if (next) return compare_with(*next);
  be_steady();
}

void ThreadTuner::be_steady() {
  phase_ = Phase::kSteady;
  settling_ = in_use_ == kept_ ? 0 : options_.settle_steps;
  in_use_ = kept_;
  block_ = {};
  steady_share_.reset();
  changed_ = 0;
  const std::string threads = fmt::format("{} thread{} decode{}", kept_, kept_ == 1 ? "" : "s", kept_ == 1 ? "s" : "");
  decision_ = compared_.empty() ? fmt::format(
                                      "{}: {:.1f} % of the time was spent waiting for batches, but --threads {} allows "
                                      "no other number of threads",
                                      threads, 100 * wait_share_, options_.threads_max)
                                : fmt::format("{}: a step takes {}", threads, fmt::join(compared_, "; "));
}

void ThreadTuner::watch() {
  const double share = block_.wait_s / block_.seconds;
  block_ = {};
  if (!steady_share_) {
    steady_share_ = share;
    return;
  }
  changed_ = std::abs(share - *steady_share_) > kChange ? changed_ + 1 : 0;
  if (changed_ == kWindowsChanged) begin_measuring();
}

std::optional<std::string> ThreadTuner::take_decision() {
  return std::exchange(decision_, std::nullopt);
}

}  // namespace dtrain::train
