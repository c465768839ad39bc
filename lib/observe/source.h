// The metrics of one process of a job, as an observer outside of the process sees them.
#pragma once

#include <cstdint>
#include <string>

#include "telemetry/registry.h"

namespace dtrain::observe {

struct Source {
  std::string role;  // role of the process: "worker", "server", "scheduler"
  uint32_t rank = 0;
  std::string host;
  telemetry::Snapshot snapshot;
};

}  // namespace dtrain::observe
