#include "plan/virtual_network.h"

#include <algorithm>
#include <cmath>

namespace dtrain::plan {
namespace {

constexpr uint64_t kFaultStream = ~uint64_t{0};  // the number of a random stream that no worker uses

}  // namespace

VirtualNetwork::VirtualNetwork(const NetworkSetting& setting, const NetworkFaults& network_faults, size_t hosts,
                               uint64_t seed)
    : faults_(network_faults.by_host.empty() ? std::vector<MessageFaults>(hosts, network_faults.faults)
                                             : network_faults.by_host),
      loses_messages_(std::any_of(faults_.begin(), faults_.end(), [](const MessageFaults& f) { return f.drop > 0; })),
      latency_(time_of_ms(setting.latency_ms)),
      ns_per_byte_(setting.gbit_per_s > 0 ? 8 / setting.gbit_per_s : 0),
      calm_from_(std::isfinite(network_faults.until_ms) ? time_of_ms(network_faults.until_ms)
                                                        : std::numeric_limits<Time>::max()),
      random_(seed, Use::kSimulation, kFaultStream, network_faults.seed),
      out_free_(hosts, 0),
      in_free_(hosts, 0) {}

VirtualNetwork::Arrivals VirtualNetwork::send(Time now, Host from, uint64_t bytes) {
  messages_++;
  bytes_ += bytes;
  const Time leaves = std::max(now, out_free_[from]);
  out_free_[from] = leaves + line_time(bytes);
  Arrivals arrivals;
  if (now >= calm_from_) {
    arrivals.at[arrivals.count++] = leaves + latency_;
    return arrivals;
  }
  const MessageFaults& faults = faults_[from];
  if (faults.drop == 0 || random_.uniform() >= faults.drop) arrivals.at[arrivals.count++] = leaves + delay(faults);
  if (faults.duplicate > 0 && random_.uniform() < faults.duplicate) {
    arrivals.at[arrivals.count++] = leaves + delay(faults);
  }
  return arrivals;
}

Time VirtualNetwork::delay(const MessageFaults& faults) {
  if (faults.delay_max_ms <= 0) return latency_;
  return latency_ + time_of_ms(random_.uniform(faults.delay_min_ms, faults.delay_max_ms));
}

Time VirtualNetwork::receive(Time now, Host to, uint64_t bytes) {
  in_free_[to] = std::max(now, in_free_[to]) + line_time(bytes);
  return in_free_[to];
}

}  // namespace dtrain::plan
