// What the stores need of a network: ordered pipes of messages between one worker and one server. rpc/ has it over
// gRPC, test/kvstore in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/error.h"
#include "kvstore/wire.h"

namespace dtrain::kvstore {

// One end of a pipe. Messages of one slice arrive in the order of sending; others may overtake. Any thread may call it.
class Pipe {
 public:
  virtual ~Pipe() = default;
  // Queues the message and returns at once; what is queued when the pipe breaks is lost (on_broken says so).
  virtual void send(Message message) = 0;
};

// The worker's side. Calls come from several threads of the transport, for one slice one at a time; they must be short.
class ClientEvents {
 public:
  virtual ~ClientEvents() = default;
  virtual void on_message(uint32_t server, const Header& header, Pieces payload) = 0;
  // The pipe broke and stands again: what was not answered must be sent again (pushes are recognised by step).
  virtual void on_reconnected(uint32_t server) = 0;
};

// The server's side. `peer` stays good for answers until the pipe breaks; answers to a broken pipe vanish. Calls come
// from several threads, for one slice of one worker one at a time.
class ServerEvents {
 public:
  virtual ~ServerEvents() = default;
  virtual void on_message(const std::shared_ptr<Pipe>& peer, const Header& header, Pieces payload) = 0;
};

}  // namespace dtrain::kvstore
