// Points in time for tests of what is measured.
#pragma once

#include "base/waits.h"

namespace dtrain::train::test {

inline SteadyTime at(double seconds) {
  return SteadyTime(std::chrono::duration_cast<SteadyTime::duration>(std::chrono::duration<double>(seconds)));
}

}  // namespace dtrain::train::test
