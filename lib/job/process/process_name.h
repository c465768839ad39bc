// Names the processes of a job: a role, and the rank among the processes of that role.
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

// Converts to and from text such as "worker:3".
std::string to_text(const ProcessName& process);
Result<ProcessName> parse_process_name(std::string_view text);

}  // namespace dtrain::job
