// How far the training of an array, or of a slice of one, has come.
#pragma once

#include <cstdint>

namespace dtrain::kvstore {

struct Counters {
  uint64_t samples = 0;  // applied since the start of the job
  uint64_t updates = 0;  // since the start of the job
};

}  // namespace dtrain::kvstore
