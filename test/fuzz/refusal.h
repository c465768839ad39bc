// What all targets require of the errors that readers return.
#pragma once

#include "base/error.h"

namespace dtrain::fuzz {

// Returns false, for a target that ends with this error. Throws CheckFailed if its message is of no use.
inline bool refused(const Error& error) {
  constexpr size_t kMessageBytesMax = 10000;
  DT_CHECK(!error.message.empty() && error.message.size() < kMessageBytesMax, "the message has {} bytes",
           error.message.size());
  return false;
}

}  // namespace dtrain::fuzz
