#include "role/setup/memory_need.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <variant>

#include "job/flags/flags.h"

namespace dtrain::role {

namespace {

// A floating-point number, because the product of sizes that a user chose may exceed 64 bits.
double elements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), 1.0,
                         [](double product, int64_t size) { return product * static_cast<double>(size); });
}

bool is_product(const graph::Op& op) {
  return std::holds_alternative<graph::Convolution>(op) || std::holds_alternative<graph::FullyConnected>(op);
}

std::string size_text(double bytes) {
  return bytes < 0x1p30 ? fmt::format("{:.1f} MiB", bytes / 0x1p20) : fmt::format("{:.1f} GiB", bytes / 0x1p30);
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
  return fail(
      Code::kUsage,
      "network '{}' at --batch-size {} needs at least {} ({} for weights and gradients, {} an image){}, and only "
      "{} of memory can be used here: make the batch, the image or the network smaller{}",
      network, batch_size, size_text(bytes), size_text(need.weights), size_text(need.activations),
      workers == 1 ? "" : fmt::format(", {} for the {} workers of this host", size_text(all_bytes), workers),
      size_text(host_bytes), fewer_would_fit ? ", or run fewer workers on the host" : "");
}

int64_t workers_started_here(const job::Flags& flags) {
  const bool starts_all = flags.launch.role == job::Role::kNone && !flags.launch.on_other_hosts();
  return starts_all ? std::max<int64_t>(1, flags.job.num_workers) : 1;
}

Result<> check_memory(const job::Flags& flags, const Network& network, double host_bytes, int64_t workers) {
  if (!flags.device.gpus.empty()) return {};
  return check_memory(memory_need(network), flags.job.network.network, flags.job.batch_size, host_bytes, workers);
}

}  // namespace dtrain::role
