// Shared by the tests of all kinds of groups: ranks as threads of this program, and checks of every operation against a
// plain loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/collective.h"
#include "comm/gloo.h"

namespace dtrain::comm::test {

constexpr double kLong = 300;  // seconds; a test that waits this long hangs

using Group = std::vector<std::unique_ptr<Collective>>;
using Arrays = std::vector<std::vector<float>>;  // by rank

// The outcome of one rank's work.
struct Ending {
  Result<> result = {};
  bool has_thrown = false;  // `result` then has the exception's text
};

// Runs work(rank) for each of `ranks`, or for 0 .. n-1, each in a thread of its own.
std::vector<Ending> on_ranks(const std::vector<uint32_t>& ranks, const std::function<Result<>(uint32_t)>& work);
std::vector<Ending> on_all(size_t n, const std::function<Result<>(uint32_t)>& work);

// Small whole numbers, whose sums are exact in any order.
Arrays whole_numbers(size_t ranks, size_t elements);
// Numbers of very different magnitudes: any other order of summation gives other bits.
Arrays random_numbers(size_t ranks, size_t elements, uint64_t seed);
// The sum by a plain loop: ((a0 + a1) + a2) + ...
std::vector<float> ordered_sum_of(const Arrays& arrays);
bool same_bits(std::span<const float> a, std::span<const float> b);

// Runs every operation on `arrays`, with roots at both ends and in between, and checks every bit of every rank's array
// against the interface. `sum` is the expected sum.
void check_operations(const Group& group, const Arrays& arrays, const std::vector<float>& sum);
// The same for whole numbers, with all typical lengths.
void check_lengths(const Group& group);

// Draws operations from the seed: on arrays of fewer than `elements_max`, either `sum_all` or reduce and broadcast.
// Each rank pauses before each of them for up to `pause_max` turns of the scheduler, so that ranks arrive in any order.
// Checks that every rank gets the sum each time.
struct ManyOperations {
  int count = 0;
  int64_t pause_max = 0, elements_max = 0;
  std::function<Result<>(Collective&, std::vector<float>&)> sum_all;
  std::function<std::vector<float>(const Arrays&)> sum_of = ordered_sum_of;
};
void check_many_operations(const Group& group, uint64_t seed, const ManyOperations& many);

// `ranks` processes, simulated by threads, each with its own gloo over 127.0.0.1.
Group gloo_group(uint32_t ranks, double wait_limit_s);

}  // namespace dtrain::comm::test
