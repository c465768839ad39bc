// --data-nthreads auto: finds the number of decode threads with which a worker's steps take the least time. Decode
// threads and compute threads share the cores: too few decode threads let the steps wait for batches, and too many take
// the cores away from the computation. The compute threads themselves stay as they are, because sums depend on their
// number to the last bit; batches do not depend on the number of threads that decode them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::train {

// A pure state machine: it is told how long steps took, and says how many threads are to decode from now on. It
// compares two numbers by blocks of steps in turns (A B A B ...) and keeps the other number only if it is faster beyond
// noise. First it tries more threads if steps wait for data, then fewer. When neither helps it is steady, and begins
// again only if the share of the time that steps wait for data changes greatly.
class ThreadTuner {
 public:
  struct Options {
    int threads = 1;  // at the beginning
    int threads_max = 1;
    int64_t settle_steps = 5;  // the steps after a change that do not count: their batches were made before it
  };
  explicit ThreadTuner(const Options& options);

  // A step took `seconds`, `wait_s` of them waiting for its batch; without waits for other processes.
  void step(double seconds, double wait_s);
  [[nodiscard]] int threads() const { return in_use_; }
  // What was decided since the last call, for the log: "2 threads decode: a step takes 10.20 ms with 1, 8.71 ms with 2
  // (0.854, kept)". Nullopt if nothing was.
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
  int kept_, in_use_;  // the best so far; the number of the block at hand
  int64_t settling_;   // steps until the block at hand begins
  Block block_;
  int64_t block_steps_ = 0;  // of each block of a comparison
  double wait_share_ = 0;    // when measured last
  // The comparison at hand.
  int other_ = 0;
  bool more_ = false,
       may_turn_ = false;  // whether other_ is the larger number, and whether the other direction is left
  std::vector<double> kept_ms_, other_ms_;
  std::vector<std::string> compared_;  // since the tuner began measuring
  // While steady.
  std::optional<double> steady_share_;
  int changed_ = 0;  // windows in a row whose share is another one
  std::optional<std::string> decision_;
};

}  // namespace dtrain::train
