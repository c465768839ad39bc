// What the tests of all kinds of groups share: ranks as threads of this program, and every operation against a plain
// loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/collective.h"
#include "comm/gloo.h"

namespace dtrain::comm::test {

using Group = std::vector<std::unique_ptr<Collective>>;
using Arrays = std::vector<std::vector<float>>;  // by rank

// How one rank's work has ended.
struct Ending {
  Result<> result = {};
  bool has_thrown = false;  // then the result has the text
};

// Runs work(rank) for all of `ranks` (without them: 0 .. n-1), each in a thread of its own.
std::vector<Ending> on_ranks(const std::vector<uint32_t>& ranks, const std::function<Result<>(uint32_t)>& work);
std::vector<Ending> on_all(size_t n, const std::function<Result<>(uint32_t)>& work);

// Small whole numbers: their sums are exact in any order.
Arrays whole_numbers(size_t ranks, size_t elements);
// Numbers of very different size: any other order of summing gives other bits.
Arrays random_numbers(size_t ranks, size_t elements, uint64_t seed);
// The plain loop: ((a0 + a1) + a2) + ...
std::vector<float> ordered_sum_of(const Arrays& arrays);
bool same_bits(std::span<const float> a, std::span<const float> b);

// Every operation, with roots at both ends and in between, over `arrays`: every bit of every rank's array is as the
// interface says, where the sum is `sum`.
void check_operations(const Group& group, const Arrays& arrays, const std::vector<float>& sum);
// The same for whole numbers of all the usual lengths.
void check_lengths(const Group& group);

// `ranks` processes that are threads, each with its own gloo, over 127.0.0.1.
Group gloo_group(uint32_t ranks, double wait_limit_s);

}  // namespace dtrain::comm::test
