// The limit on open files, which also limits the number of connections.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace dtrain::job {

// Code::kStartup if the limit of this process on open descriptors is below `needed`. `who` names it: "the scheduler".
Result<> check_open_files(int64_t needed, const std::string& who);

// The number of descriptors that a process with this number of connections needs. Some are for other files, and
// connections that have not sent anything yet may take up to an eighth.
inline int64_t descriptors_for(int64_t connections) {
  constexpr int64_t kOther = 128;
  return connections + connections / 7 + kOther;
}

// The number of connections that a worker has to each server.
inline constexpr int64_t kConnectionsPerServer = 4;

}  // namespace dtrain::job
