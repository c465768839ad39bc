// The processes of a job by name: a role, and a rank within it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace dtrain::job {

enum class Role { kNone, kScheduler, kServer, kWorker };

struct ProcessName {
  Role role = Role::kNone;
  int64_t rank = 0;
  bool operator==(const ProcessName&) const = default;
};

// "worker:3", both ways.
std::string to_text(const ProcessName& process);
Result<ProcessName> parse_process_name(std::string_view text);

}  // namespace dtrain::job
