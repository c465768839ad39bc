// Events, effects and policies as text, one line each. Used by event logs (sync/event_log.h) and by the tests'
// scenarios.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "sync/machine.h"

namespace dtrain::sync {

// Example lines: "push 1 step 7", "pull 1 step 8", "refresh 1 step 8", "join 1 step 9", "leave 1".
std::string to_text(const Event& event);
// Example lines: "add 1 to group 0", "drop 1 step 7", "late 1 step 7", "apply group 0 staleness 1", "keep group 0",
// "answer 1 group 0 step 8", "park 1 waits for 2", "reject 1: push of a future step".
std::string to_text(const Effect& effect);
// Example lines: "bsp 3", "bsp 3 backup 1", "asp 3", "ssp 3 lead 2", "gsp 0 0 1" (the group of each worker), "gsp 0 0 1
// lead 2". With one worker, BSP and ASP are the same policy, whose text is "bsp 1".
std::string to_text(const Policy& policy);

// The inverse of to_text. Code::kData if the line is malformed.
Result<Event> parse_event(std::string_view line);
Result<Policy> parse_policy(std::string_view line);

}  // namespace dtrain::sync
