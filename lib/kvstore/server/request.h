// A worker's message with the pipe for its answer, and the answers that carry no values.
#pragma once

#include <cstdint>
#include <memory>

#include "kvstore/wire/transport.h"

namespace dtrain::kvstore {

// What identifies a request of a worker. A repeated request has the same.
struct RequestId {
  uint64_t incarnation = 0;
  uint64_t number = 0;
  bool operator==(const RequestId&) const = default;
};

// A push, pull or refresh.
struct Request {
  std::shared_ptr<Pipe> peer;
  Header header;
};
inline RequestId id_of(const Header& header) {
  return {header.incarnation, header.request};
}
// The header of the answer to the request, without values.
Header answer_to(const Request& request, uint32_t server, Status status);
void refuse(const Request& request, uint32_t server, Status why);

struct ControlCall {
  std::shared_ptr<Pipe> peer;
  const ControlRequest& request;
};
inline RequestId id_of(const ControlCall& call) {
  return {call.request.incarnation, call.request.request};
}
ControlAnswer answer_to(const ControlCall& call, Status status);
void refuse(const ControlCall& call, Status why);

}  // namespace dtrain::kvstore
