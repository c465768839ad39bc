#include "role/setup/memory_need.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <variant>

#include "base/words.h"
#include "job/flags/flags.h"

namespace dtrain::role {

namespace {

// Returns a floating-point number, because the product of user-chosen sizes may exceed 64 bits.
double elements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), 1.0,
                         [](double product, int64_t size) { return product * static_cast<double>(size); });
}

bool is_product(const graph::Op& op) {
  return std::holds_alternative<graph::Convolution>(op) || std::holds_alternative<graph::FullyConnected>(op);
}

}  // namespace

MemoryNeed memory_need(const Network& network, exec::Options::Purpose purpose) {
  const bool trains = purpose == exec::Options::Purpose::kTraining;
  MemoryNeed need;
  for (const graph::ParameterInfo& parameter : network.shapes.parameters) {
    need.weights += (trains ? 2 : 1) * sizeof(float) * elements(parameter.shape);
  }
  for (size_t node = 0; node < network.graph.nodes().size(); node++) {
    const graph::Op& op = network.graph.nodes()[node].op;
    if (!(trains && is_product(op)) && !std::holds_alternative<graph::Input>(op)) continue;
    need.activations += sizeof(float) * elements(network.shapes.output[node]);
  }
  return need;
}

Result<> check_memory(const MemoryNeed& need, const std::string& network, int64_t batch_size, double host_bytes,
                      int64_t workers) {
  const double bytes = need.bytes(batch_size), all_bytes = bytes * static_cast<double>(workers);
  if (all_bytes <= host_bytes) return {};
  const bool fewer_would_fit = bytes <= host_bytes;
  return fail(Code::kUsage,
              "network '{}' at --batch-size {} needs at least {} ({} for weights and gradients, {} per image){}, but "
              "only {} of memory can be used on this host: make the batch, the image or the network smaller{}",
              network, batch_size, bytes_text(bytes), bytes_text(need.weights), bytes_text(need.activations),
              workers == 1 ? "" : fmt::format(", {} for the {} workers of this host", bytes_text(all_bytes), workers),
              bytes_text(host_bytes), fewer_would_fit ? ", or run fewer workers on the host" : "");
}

HostShare started_here(const job::Flags& flags) {
  const bool starts_all = flags.launch.role == job::Role::kNone && !flags.launch.on_other_hosts();
  if (!starts_all) return {.workers = 1};
  return {.workers = std::max<int64_t>(1, flags.job.num_workers), .servers = flags.job.num_servers};
}

Result<> check_memory(const job::Flags& flags, const Network& network, double host_bytes, int64_t workers) {
  if (!flags.device.gpus.empty()) return {};
  return check_memory(memory_need(network), flags.job.network.network, flags.job.batch_size, host_bytes, workers);
}

}  // namespace dtrain::role
