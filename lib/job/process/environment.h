// How a process reads its environment: the real one, or one that a test makes up.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace dtrain::job {

// Returns the value of an environment variable, or nullopt if it is not set. Only cmd reads the real environment.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

}  // namespace dtrain::job
