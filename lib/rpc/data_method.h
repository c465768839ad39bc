// The names of proto/data.proto, for the two ends.
#pragma once

#include <string>

#include "data.grpc.pb.h"

namespace dtrain::rpc {

inline constexpr const char* kRankKey = "dtrain-rank";
inline constexpr const char* kIncarnationKey = "dtrain-incarnation";
inline constexpr const char* kLaneKey = "dtrain-lane";

// In the answer's initial metadata: the stream stands. gRPC hands out empty metadata with a refusal, too.
inline constexpr const char* kAcceptedKey = "dtrain-accepted";

inline std::string exchange_method() {
  return std::string("/") + proto::Data::service_full_name() + "/Exchange";
}

}  // namespace dtrain::rpc
