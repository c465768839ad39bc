// The network of a simulation: hosts with a line each way, and weather. A message leaves when its sender's line is
// free, its first byte arrives after the latency, and it is there when the receiver's line had time for all of it.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/random.h"

namespace dtrain::sync {

using Time = uint64_t;  // virtual nanoseconds

inline Time time_of_ms(double ms) {
  return static_cast<Time>(std::llround(ms * 1e6));
}

struct NetworkSetting {
  double latency_ms = 0.1;
  double gbit_per_s = 10;  // of a host, each way; 0: endless
  uint64_t bytes = 0;      // of a step's gradients, and of its weights: spread evenly over the servers
};

// What a host does to the messages that it sends.
struct MessageFaults {
  double drop = 0, duplicate = 0;  // shares of them
  double delay_min_ms = 0, delay_max_ms = 0;
};

struct Weather {
  MessageFaults faults = {};
  std::vector<MessageFaults> by_host = {};                    // workers, then servers; empty: `faults` of all
  double until_ms = std::numeric_limits<double>::infinity();  // calm from then on
  uint64_t seed = 0;                                          // beside the simulation's own
  double resend_ms = 100;                                     // what is not answered; twice as long each time, up to
  double resend_max_ms = 5000;
};

class VirtualNetwork {
 public:
  using Host = uint32_t;
  VirtualNetwork(const NetworkSetting& setting, const Weather& weather, size_t hosts, uint64_t seed);

  // When the first bytes of the copies of a message arrive, of which there are 0, 1 or 2.
  struct Arrivals {
    int count = 0;
    Time at[2] = {};
  };
  Arrivals send(Time now, Host from, uint64_t bytes);
  // When a message is there whose first byte has arrived now.
  Time receive(Time now, Host to, uint64_t bytes);

  [[nodiscard]] bool loses_messages() const { return loses_messages_; }
  [[nodiscard]] uint64_t messages() const { return messages_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  [[nodiscard]] Time line_time(uint64_t bytes) const {
    return static_cast<Time>(static_cast<double>(bytes) * ns_per_byte_);
  }
  Time delay(const MessageFaults& faults);

  std::vector<MessageFaults> faults_;  // by host
  bool loses_messages_;
  const Time latency_;
  const double ns_per_byte_;
  const Time calm_from_;
  RandomStream random_;
  std::vector<Time> out_free_, in_free_;  // by host
  uint64_t messages_ = 0, bytes_ = 0;
};

}  // namespace dtrain::sync
