// The seeds from which a test draws its faults.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace dtrain::test {

struct DrawnSeeds {
  uint64_t first = 1, last = 1;
};

// The seeds that the environment variable names as FIRST-LAST, such as "1-100"; `usual` if it is not set.
inline DrawnSeeds drawn_seeds(const char* variable, DrawnSeeds usual = {}) {
  const char* given = std::getenv(variable);
  if (given != nullptr && std::sscanf(given, "%lu-%lu", &usual.first, &usual.last) != 2) {
    throw std::runtime_error(std::string(variable) + " is FIRST-LAST, not " + given);
  }
  return usual;
}

// The numbers of the kinds of jobs that a test runs: all `count` if the variable names seeds; otherwise two, other ones
// with each commit (DTRAIN_KILL_SEEDS).
inline std::vector<size_t> drawn_kinds(const char* variable, size_t count) {
  const size_t drawn = std::getenv(variable) != nullptr ? count : 2;
  const uint64_t first = drawn_seeds("DTRAIN_KILL_SEEDS").first;
  std::vector<size_t> kinds;
  for (size_t i = 0; i < drawn; i++) kinds.push_back((first + i) % count);
  return kinds;
}

}  // namespace dtrain::test
