// The names that both ends of proto/data.proto use.
#pragma once

#include <string>

#include "data.grpc.pb.h"

namespace dtrain::rpc {

inline constexpr const char* kRankKey = "dtrain-rank";
inline constexpr const char* kIncarnationKey = "dtrain-incarnation";
inline constexpr const char* kLaneKey = "dtrain-lane";

// The server puts this key into its initial metadata when it accepts a stream. It is needed because gRPC also delivers
// initial metadata, which is empty, when a stream is refused.
inline constexpr const char* kAcceptedKey = "dtrain-accepted";

inline std::string exchange_method() {
  return std::string("/") + proto::Data::service_full_name() + "/Exchange";
}

}  // namespace dtrain::rpc
