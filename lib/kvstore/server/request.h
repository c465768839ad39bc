// A worker's message with the pipe for its answer, and the answers that carry no values.
#pragma once

#include <cstdint>
#include <memory>

#include "kvstore/wire/transport.h"

namespace dtrain::kvstore {

// A push, pull or refresh.
struct Request {
  std::shared_ptr<Pipe> peer;
  Header header;
};
// The header of the answer to the request, without values.
Header answer_to(const Request& request, uint32_t server, Status status);
void refuse(const Request& request, uint32_t server, Status why);

struct ControlCall {
  std::shared_ptr<Pipe> peer;
  const ControlRequest& request;
};
ControlAnswer answer_to(const ControlCall& call, Status status);
void refuse(const ControlCall& call, Status why);

}  // namespace dtrain::kvstore
