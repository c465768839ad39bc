// Faults between a worker's store and its transport, for tests: messages that are lost, come twice or late, drawn from
// a seed (distributed.md R-N8). Knows both by their interfaces only, so it does the same over gRPC and in memory.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "kvstore/transport.h"

namespace dtrain::kvstore {

using FaultDelay = std::chrono::duration<double, std::milli>;

// Of each message of a connection, both ways.
struct Faults {
  double drop = 0, dup = 0;                                         // probability, 0 to 1
  FaultDelay delay_min = FaultDelay(0), delay_max = FaultDelay(0);  // drawn evenly between them
  uint64_t seed = 0;
  [[nodiscard]] bool any() const { return drop > 0 || dup > 0 || delay_max > FaultDelay(0); }
};

enum class Way : uint8_t { kToServer, kToWorker };

struct Connection {
  uint32_t worker = 0;
  uint32_t server = 0;
};

// What happens to the n-th message, from 0, that a connection carries that way. Equal arguments, equal fate.
struct Fate {
  int copies = 1;                        // 0: it is lost
  std::array<FaultDelay, 2> delay = {};  // of each copy
};
Fate fate_of(const Faults& faults, Connection connection, Way way, uint64_t n);

struct FaultCounts {
  uint64_t messages = 0;
  uint64_t lost = 0;  // those behind a lost one of the same slice included
  uint64_t doubled = 0;
  uint64_t breaks = 0;  // the store was told to send again
};

// Stands before the store as its transport, and before the transport as its store.
//
// Messages of one slice keep their order, as transport.h promises. So what follows a lost one of the same slice is lost
// too, as with a connection that broke, until the store is told (on_reconnected): when no message of that server has
// moved for 20 ms, and then more rarely as long as no answer comes. A payload without an owner is copied, for a late
// message is read when its memory may be in use again (wire.h).
//
// Everything goes through one thread of its own, which alone calls the store and the transport's pipes; messages of
// servers without faults pass by.
class FaultyTransport final : public ClientEvents {
 public:
  // Called once, on its thread, if a reaction threw. Must be short.
  using OnFailure = std::function<void(const Error&)>;

  // `faults`: by server. The store must outlive it, and it the transport that it is given to.
  FaultyTransport(uint32_t worker, const std::vector<Faults>& faults, ClientEvents& store, OnFailure on_failure);
  // Nothing comes any more, what is on its way vanishes.
  ~FaultyTransport() override;
  FaultyTransport(const FaultyTransport&) = delete;
  FaultyTransport& operator=(const FaultyTransport&) = delete;

  // What the store is to send through instead of the transport's pipes, one a server. Once. They may outlive it:
  // messages then vanish.
  [[nodiscard]] std::vector<std::shared_ptr<Pipe>> wrap(std::span<const std::shared_ptr<Pipe>> pipes);

  void on_message(uint32_t server, const Header& header, Pieces payload) override;
  void on_reconnected(uint32_t server) override;

  [[nodiscard]] FaultCounts counts() const;

 private:
  class Line;
  std::shared_ptr<Line> line_;
};

}  // namespace dtrain::kvstore
