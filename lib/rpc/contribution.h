// The messages of an all-gather as they travel, and back.
#pragma once

#include <optional>
#include <string>

#include "job/process/gathered.h"
#include "scheduler.pb.h"

namespace dtrain::rpc {

proto::Contribution to_proto(const job::Contribution& contribution);
// nullopt: an empty message, or one of another build.
std::optional<job::Contribution> from_proto(const proto::Contribution& message);
// Names the kind of the message: "run_start". Empty for an empty message.
std::string kind_of(const proto::Contribution& message);

}  // namespace dtrain::rpc
