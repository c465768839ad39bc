// One message over a gloo connection. This header includes gloo: only links.cc and link_watch.cc may include it.
#pragma once

#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>

#include "comm/links.h"

namespace dtrain::comm {

using GlooBuffer = gloo::transport::UnboundBuffer;

// The text of a gloo exception without its beginning, the position in gloo's source code, as in
// "[../gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:4711".
std::string reason(const std::exception& e);

struct Message {
  const Links::Round* round = nullptr;
  uint32_t peer = 0;
  bool is_send = false;
  std::unique_ptr<GlooBuffer> buffer;
  bool is_done = false;

  // Returns false if it was woken by an abort. Throws gloo's exceptions; after a timeout gloo has closed all
  // connections.
  [[nodiscard]] bool wait(std::chrono::milliseconds limit) const {
    return is_send ? buffer->waitSend(limit) : buffer->waitRecv(limit);
  }
  void abort() const { is_send ? buffer->abortWaitSend() : buffer->abortWaitRecv(); }
};

// Whether the message has been sent or received. No other thread may abort the wait during this call, but an earlier
// abort may still be pending. If the message is not complete, gloo closes all connections.
bool is_complete(const Message& message);

}  // namespace dtrain::comm
