// --data-nthreads auto: finds the number of decode threads with which a worker's steps take the least time. Decode
// threads and compute threads share the cores: too few decode threads make the steps wait for batches, and too many
// take the cores away from the computation. The number of compute threads does not change, because sums depend on it to
// the last bit; batches do not depend on the number of decode threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::train {

// A pure state machine. Its input is how long steps took; its output is how many threads should decode from now on.
// It compares two thread numbers by alternating blocks of steps (A B A B ...) and changes to the other number only if
// that is faster beyond noise. First it tries more threads if steps wait for data, then fewer. When neither helps, it
// is steady, and begins again only if the share of the time that steps wait for data changes greatly.
class ThreadTuner {
 public:
  struct Options {
    int threads = 1;  // number of threads at the beginning
    int threads_max = 1;
    // Number of steps after a change that do not count, because their batches were made before it.
    int64_t settle_steps = 5;
  };
  explicit ThreadTuner(const Options& options);

  // To be called after a step that took `seconds`, of which it waited `wait_s` for its batch. Waits for other processes
  // are not included.
  void step(double seconds, double wait_s);
  [[nodiscard]] int threads() const { return in_use_; }
  // What was decided since the last call, for the log: "2 threads decode: a step takes 10.20 ms with 1, 8.71 ms with 2
  // (0.854, kept)". Nullopt if nothing was decided.
  std::optional<std::string> take_decision();

 private:
  enum class Phase { kMeasure, kCompare, kSteady };
  struct Block {
    int64_t steps = 0;
    double seconds = 0, wait_s = 0;
  };

  void begin_measuring();
  void end_measuring();
  void compare_with(int other);
  void end_block();
  void end_comparison();
  void try_next(bool other_was_better);
  [[nodiscard]] std::optional<int> neighbor(bool more) const;
  void be_steady();
  void watch();

  const Options options_;
  Phase phase_ = Phase::kMeasure;
  int kept_, in_use_;  // kept_: the best number of threads so far; in_use_: the number in the current block
  int64_t settling_;   // steps until the current block begins
  Block block_;
  int64_t block_steps_ = 0;  // steps in each block of a comparison
  double wait_share_ = 0;    // share of the time that steps waited for data, at the last measurement
  // The number of threads that is compared with kept_ at present.
  int other_ = 0;
  // more_: whether other_ is the larger number; may_turn_: whether the other direction is still untried
  bool more_ = false, may_turn_ = false;
  std::vector<double> kept_ms_, other_ms_;
  std::vector<std::string> compared_;  // texts about the comparisons that were made since the tuner began measuring
  // The share of waits in the first window of the steady state; nullopt: not measured yet.
  std::optional<double> steady_share_;
  int changed_ = 0;  // number of consecutive windows whose share of waits differs from steady_share_
  std::optional<std::string> decision_;
};

}  // namespace dtrain::train
