#include "kvstore/server/request.h"

namespace dtrain::kvstore {

Header answer_to(const Request& request, uint32_t server, Status status) {
  Header header;
  header.kind = Kind::kAnswer;
  header.status = status;
  header.rank = server;
  header.request = request.header.request;
  header.step = request.header.step;
  header.key = request.header.key;
  header.slice = request.header.slice;
  return header;
}

void refuse(const Request& request, uint32_t server, Status why) {
  request.peer->send({answer_to(request, server, why)});
}

ControlAnswer answer_to(const ControlCall& call, Status status) {
  return {.id = call.request.id, .request = call.request.request, .status = status};
}

void refuse(const ControlCall& call, Status why) {
  call.peer->send({answer_to(call, why)});
}

}  // namespace dtrain::kvstore
