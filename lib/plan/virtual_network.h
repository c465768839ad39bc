// The network of a simulation: each host has one outgoing and one incoming link, and messages may be delayed, lost or
// duplicated. A message is sent as soon as its sender's outgoing link is free. Its first byte arrives after the
// latency. The message is complete when the receiver's incoming link has had the time to transfer all of its bytes.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/random.h"

namespace dtrain::plan {

using Time = uint64_t;  // a virtual time in nanoseconds

inline Time time_of_ms(double ms) {
  return static_cast<Time>(std::llround(ms * 1e6));
}

struct NetworkSetting {
  double latency_ms = 0.1;
  double gbit_per_s = 10;  // bandwidth of a host in each direction; 0: unlimited
  // Size of a step's gradients, which is also that of its weights; divided evenly among the servers.
  uint64_t bytes = 0;
};

// Faults that happen to the messages of a host.
struct MessageFaults {
  double drop = 0, duplicate = 0;  // the fractions of the messages that are lost and duplicated
  double delay_min_ms = 0, delay_max_ms = 0;
};

struct NetworkFaults {
  MessageFaults faults = {};
  // Indexed by host, first the workers, then the servers; empty: `faults` holds for all.
  std::vector<MessageFaults> by_host = {};
  double until_ms = std::numeric_limits<double>::infinity();  // no faults after this time
  uint64_t seed = 0;                                          // combined with the seed of the simulation
  // Time until an unanswered request is first sent again. It doubles each time, up to resend_max_ms.
  double resend_ms = 100;
  double resend_max_ms = 5000;
};

class VirtualNetwork {
 public:
  using Host = uint32_t;
  VirtualNetwork(const NetworkSetting& setting, const NetworkFaults& network_faults, size_t hosts, uint64_t seed);

  // The times at which the first byte of each copy of a message arrives. There may be 0, 1 or 2 copies.
  struct Arrivals {
    int count = 0;
    Time at[2] = {};
  };
  Arrivals send(Time now, Host from, uint64_t bytes);
  // Returns the time at which a message whose first byte arrives at `now` is complete.
  Time receive(Time now, Host to, uint64_t bytes);

  [[nodiscard]] bool loses_messages() const { return loses_messages_; }
  [[nodiscard]] uint64_t messages() const { return messages_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  [[nodiscard]] Time line_time(uint64_t bytes) const {
    return static_cast<Time>(static_cast<double>(bytes) * ns_per_byte_);
  }
  Time delay(const MessageFaults& faults);

  std::vector<MessageFaults> faults_;  // the faults of each host's messages, indexed by host
  bool loses_messages_;
  const Time latency_;
  const double ns_per_byte_;
  const Time calm_from_;
  RandomStream random_;
  std::vector<Time> out_free_, in_free_;  // when each host's outgoing and incoming link is free again, indexed by host
  uint64_t messages_ = 0, bytes_ = 0;
};

}  // namespace dtrain::plan
