// Injects faults between a worker's store and its transport, for tests: messages are lost, duplicated or delayed, as
// drawn from a seed. It uses only the interfaces of both sides, so it works over gRPC and in memory.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "kvstore/wire/transport.h"

namespace dtrain::kvstore {

using FaultDelay = std::chrono::duration<double, std::milli>;

// Faults of each message of a connection, in both directions.
struct Faults {
  double drop = 0, dup = 0;  // probabilities, 0 to 1, that a message is lost and that it is duplicated
  // Each message gets a random delay between these two, uniformly distributed.
  FaultDelay delay_min = FaultDelay(0), delay_max = FaultDelay(0);
  uint64_t seed = 0;
  [[nodiscard]] bool any() const { return drop > 0 || dup > 0 || delay_max > FaultDelay(0); }
};

enum class Direction : uint8_t { kToServer, kToWorker };

struct Connection {
  uint32_t worker = 0;
  uint32_t server = 0;
};

// What happens to the n-th message (counted from 0) that a connection carries in one direction. Equal arguments give an
// equal Fate.
struct Fate {
  int copies = 1;                        // number of copies of the message that arrive; 0: the message is lost
  std::array<FaultDelay, 2> delay = {};  // delay of each copy
};
Fate fate_of(const Faults& faults, Connection connection, Direction direction, uint64_t n);

struct FaultCounts {
  uint64_t messages = 0;
  // Number of lost messages, including those lost because an earlier message of their slice was lost.
  uint64_t lost = 0;
  uint64_t doubled = 0;
  uint64_t breaks = 0;  // how often the store was told to send its unanswered requests again
};

// A layer between the store and the transport: it acts as the transport for the store and as the store for the
// transport.
//
// Messages of one slice keep their order, as transport.h promises. If one is lost, all later messages of the same slice
// are lost too, as with a broken connection, until on_reconnected notifies the store. on_reconnected is called when no
// message of that server has moved for 20 ms; this time grows while no answer comes. A payload without an owner is
// copied, because its memory may be reused before a delayed message is read (message.h).
//
// One thread delivers the messages of both directions and reports losses. Messages of servers without faults bypass it,
// and the transport's own on_reconnected is passed on in the calling thread.
class FaultyTransport final : public ClientEvents {
 public:
  // Called once, on the delivery thread, if a call of the store or a pipe throws. It must return quickly.
  using OnFailure = std::function<void(const Error&)>;

  // `faults` is indexed by server. The store must outlive this object, and this object must outlive the transport that
  // it is given to.
  FaultyTransport(uint32_t worker, const std::vector<Faults>& faults, ClientEvents& store, OnFailure on_failure);
  // Afterwards the store is no longer called. Messages in flight are discarded.
  ~FaultyTransport() override;
  FaultyTransport(const FaultyTransport&) = delete;
  FaultyTransport& operator=(const FaultyTransport&) = delete;

  // Returns one pipe per server; the store must send through them instead of the transport's pipes. To be called once.
  // The returned pipes may outlive this object; their messages are then discarded.
  [[nodiscard]] std::vector<std::shared_ptr<Pipe>> wrap(std::span<const std::shared_ptr<Pipe>> pipes);

  void on_message(uint32_t server, const Head& head, Pieces payload) override;
  void on_reconnected(uint32_t server) override;

  [[nodiscard]] FaultCounts counts() const;

 private:
  class FaultQueue;
  std::shared_ptr<FaultQueue> queue_;
};

}  // namespace dtrain::kvstore
