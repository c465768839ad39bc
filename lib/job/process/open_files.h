// The limit of open files, which is also one of connections.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace dtrain::job {

// Code::kStartup if this process may not have `needed` descriptors open. `who`: "the scheduler".
Result<> check_open_files(int64_t needed, const std::string& who);

// What a process needs for so many connections: some of its descriptors are for other things, and an eighth may be
// spent on connections that have not said anything yet.
inline int64_t descriptors_for(int64_t connections) {
  constexpr int64_t kOther = 128;
  return connections + connections / 7 + kOther;
}

// A worker has so many connections to each server.
inline constexpr int64_t kConnectionsPerServer = 4;

}  // namespace dtrain::job
