// Random numbers that depend only on their purpose, not on the order in which threads draw them.
//
// A RandomStream hashes a counter with a key. The key (seed, use, a, b) names a purpose, for example (seed, kAugment,
// epoch, record). Equal keys give equal numbers on every host and thread; different keys give independent streams.
// A stream is cheap to construct. The mixing function is SplitMix64 (Steele, Lea, Flood 2014), Stafford's variant 13.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace dtrain {

inline uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The purpose of a stream. Uses that have the same (seed, a, b) get independent streams.
enum class Use : uint64_t {
  kInit = 1,
  kShuffle,
  kAugment,
  kSynthetic,
  kSimulation = 6,
  kTest,
  kFaults,
  kDropout,
  kUpdateNoise,
  kListDivision
};

class RandomStream {
 public:
  RandomStream(uint64_t seed, Use use, uint64_t a = 0, uint64_t b = 0)
      : key_(mix64(mix64(mix64(mix64(seed) ^ static_cast<uint64_t>(use)) ^ a) ^ b)) {}

  [[nodiscard]] uint64_t key() const { return key_; }
  uint64_t next() { return mix64(key_ + 0x9e3779b97f4a7c15 * ++count_); }
  // Returns a random number, uniform in [0, 1), with 53 random bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  // Returns a random number, uniform in [0, n), where n must be above 0. The bias is negligible, because n is far below
  // 2^64.
  int64_t below(int64_t n) {
    return static_cast<int64_t>((static_cast<unsigned __int128>(next()) * static_cast<uint64_t>(n)) >> 64);
  }
  // Normal with mean 0 and standard deviation 1 (Box-Muller; the second value is discarded, so that the counter is the
  // only state).
  double normal() {
    const double u = 1.0 - uniform();
    const double v = uniform();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
  }

 private:
  uint64_t key_;
  uint64_t count_ = 0;
};

// Returns a random permutation of 0 .. n-1 (Fisher-Yates).
std::vector<int64_t> permutation(int64_t n, RandomStream& random);

}  // namespace dtrain
