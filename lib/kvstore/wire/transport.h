// What the stores need from a network: ordered pipes of messages between one worker and one server. Implemented over
// gRPC in rpc/ and in memory in test/kvstore.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/error.h"
#include "kvstore/wire/message.h"

namespace dtrain::kvstore {

// One end of a pipe. Messages of one slice arrive in the order in which they were sent; messages of different slices
// may overtake each other. Thread-safe.
class Pipe {
 public:
  virtual ~Pipe() = default;
  // Queues the message and returns at once. If the pipe breaks, queued messages are lost; on_reconnected notifies the
  // client.
  virtual void send(Message message) = 0;
  // Whether a message could be damaged on its way, so that its payload needs a checksum. False between processes on one
  // host.
  [[nodiscard]] virtual bool needs_checksums() const { return true; }
};

// The worker's side. The transport calls it from several threads, but never from two at once for the same slice. Calls
// must return quickly.
class ClientEvents {
 public:
  virtual ~ClientEvents() = default;
  // Called with an answer. The payload is valid during the call.
  virtual void on_message(uint32_t server, const Head& head, Pieces payload) = 0;
  // The pipe broke and works again: every unanswered request must be sent again. The server recognizes repeated pushes
  // by their step.
  virtual void on_reconnected(uint32_t server) = 0;
};

// The server's side. `peer` can be used for answers until the pipe breaks; answers to a broken pipe are discarded. The
// transport calls it from several threads, but never from two at once for the same slice and worker.
class ServerEvents {
 public:
  virtual ~ServerEvents() = default;
  virtual void on_message(const std::shared_ptr<Pipe>& peer, const Head& head, Pieces payload) = 0;
};

}  // namespace dtrain::kvstore
