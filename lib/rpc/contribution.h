// Converts the contributions to an all-gather to protobuf messages, and back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "job/process/gathered.h"
#include "scheduler.pb.h"

namespace dtrain::rpc {

proto::Contribution to_proto(const job::Contribution& contribution);
// Nullopt if the message is empty or comes from another build.
std::optional<job::Contribution> from_proto(const proto::Contribution& message);
// job::EpochEnd::kept.
inline std::optional<uint64_t> kept_of(const proto::EpochEnd& message) {
  return message.has_kept() ? std::optional(message.kept()) : std::nullopt;
}
// The name of the kind of message, such as "run_start"; empty for an empty message.
std::string kind_of(const proto::Contribution& message);

}  // namespace dtrain::rpc
