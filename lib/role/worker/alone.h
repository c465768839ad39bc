// Training in a single process.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"
#include "base/signals.h"

namespace dtrain::job {
struct Flags;
}

namespace dtrain::role {

using OnRunDir = std::function<void(const std::string& run_dir)>;

// Returns the exit code: 0, or 75 if training was stopped. `on_run_dir`: see role.h.
Result<int> run_alone(const job::Flags& flags, const Signals& signals, const OnRunDir& on_run_dir = nullptr);

}  // namespace dtrain::role
