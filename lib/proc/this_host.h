// The executable of this process, and the name of its host.
#pragma once

#include <string>

#include "base/error.h"

namespace dtrain::proc {

// The absolute path of the running executable.
Result<std::string> this_executable();
// The host's name without its domain: "node3".
std::string this_host();

}  // namespace dtrain::proc
