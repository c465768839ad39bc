// The seeds from which a test draws its faults.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

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

}  // namespace dtrain::test
