#include "role/worker/planned_memory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "base/words.h"
#include "exec/executor.h"
#include "job/flags/flags.h"
#include "job/spec/job_plan.h"
#include "optim/optimizer.h"
#include "role/setup/devices.h"
#include "role/setup/update.h"
#include "role/worker/stores.h"

namespace dtrain::role {
namespace {

using Purpose = exec::Options::Purpose;

double bytes_of(const std::vector<graph::ParameterInfo>& arrays) {
  double bytes = 0;
  for (const graph::ParameterInfo& array : arrays) {
    bytes += sizeof(float) * static_cast<double>(element_count(array.shape));
  }
  return bytes;
}

job::Flags with_batch(job::Flags flags, int64_t batch_size) {
  flags.job.batch_size = batch_size;
  return flags;
}

// The smallest batch that gives every device an image.
int64_t smallest_batch(const job::Flags& flags) {
  int64_t batch = flags.device.count();
  while (batch < flags.job.batch_size && !device_batches(with_batch(flags, batch))) batch++;
  return batch;
}

// The memory of the executors of all devices, for training and for validation.
Result<double> compiled_bytes(const MemoryQuestion& question, int64_t batch_size) {
  const job::Flags flags = with_batch(question.flags, batch_size);
  DT_TRY(const Devices devices, Devices::open(flags, Log::silent()));
  DT_TRY(const std::vector<int64_t> batches, device_batches(flags));
  const auto compiled = [&](Purpose purpose, size_t device, exec::Executor* weights_of) {
    exec::Options options = executor_options(flags, purpose);
    options.batch_size = batches[device];
    return devices.backend(device).compile(question.network.graph, options, weights_of);
  };
  double bytes = 0;
  for (size_t device = 0; device < batches.size(); device++) {
    DT_TRY(const std::unique_ptr<exec::Executor> training, compiled(Purpose::kTraining, device, nullptr));
    bytes += static_cast<double>(training->memory_bytes());
    if (!question.validates) continue;
    DT_TRY(const std::unique_ptr<exec::Executor> inference, compiled(Purpose::kInference, device, training.get()));
    bytes += static_cast<double>(inference->memory_bytes());
  }
  return bytes;
}

// The bytes that this host needs for the batch. Infinite if the host cannot even create the executors.
Result<double> bytes_on_host(const MemoryQuestion& question, int64_t batch_size) {
  const Result<PlannedMemory> plan = plan_memory(question, batch_size);
  if (plan) return plan->on(question.host);
  if (plan.error().code == Code::kDevice) return std::numeric_limits<double>::infinity();
  return tl::unexpected(plan.error());
}

std::string processes_text(const HostShare& host) {
  if (host.workers + host.servers == 1) return "";
  const auto counted = [](int64_t count, const char* name) {
    return fmt::format("{} {}{}", count, name, count == 1 ? "" : "s");
  };
  return fmt::format(" on this host, with {}{}", counted(host.workers, "worker"),
                     host.servers == 0 ? "" : " and " + counted(host.servers, "server"));
}

std::string need_text(const MemoryQuestion& question, const PlannedMemory& plan) {
  const job::JobFlags& job = question.flags.job;
  const bool is_one = question.host.workers + question.host.servers == 1;
  return fmt::format(
      "network '{}' at --batch-size {} takes {} of memory{} ({}weights and gradients {}, activations and workspace {}, "
      "images read ahead {}{}{})",
      job.network.network, job.batch_size, bytes_text(plan.on(question.host)), processes_text(question.host),
      is_one ? "" : "each worker: ", bytes_text(plan.weights + plan.gradients), bytes_text(plan.activations),
      bytes_text(plan.batches), plan.optimizer > 0 ? ", optimizer " + bytes_text(plan.optimizer) : "",
      question.host.servers > 0 ? "; each server: " + bytes_text(plan.server) : "");
}

// Advice that names the largest batch that fits.
Result<std::string> advice(const MemoryQuestion& question, const PlannedMemory& plan, double limit) {
  const bool several = question.host.workers > 1;
  DT_TRY(const int64_t batch, largest_batch({.least = smallest_batch(question.flags),
                                             .too_large = question.flags.job.batch_size,
                                             .too_large_bytes = plan.on(question.host)},
                                            limit, [&](int64_t size) { return bytes_on_host(question, size); }));
  const std::string fewer = several ? ", or run fewer workers on the host" : "";
  if (batch > 0) return fmt::format("give --batch-size {}, the largest batch size that fits{}", batch, fewer);
  return fmt::format("no --batch-size fits: make the image or the network smaller{}", fewer);
}

// Plans the memory. If the batch is too large to be compiled here, extrapolates from two small batches.
Result<PlannedMemory> plan_or_estimate(const MemoryQuestion& question, bool is_beyond_host) {
  const int64_t batch = question.flags.job.batch_size, small = smallest_batch(question.flags);
  if (!is_beyond_host || batch <= 2 * small) {
    Result<PlannedMemory> plan = plan_memory(question, batch);
    if (plan || plan.error().code != Code::kDevice || batch <= 2 * small) return plan;
  }
  DT_TRY(const double one, compiled_bytes(question, small));
  DT_TRY(const double two, compiled_bytes(question, 2 * small));
  return planned_memory(question, one + (two - one) * static_cast<double>(batch - small) / static_cast<double>(small));
}

}  // namespace

Result<PlannedMemory> planned_memory(const MemoryQuestion& question, double activations) {
  const job::JobFlags& job = question.flags.job;
  DT_TRY(const std::vector<std::string> slots, optim::state_slots(optimizer_spec(job)));
  const auto devices = static_cast<double>(question.flags.device.count());
  const double learned = bytes_of(question.network.shapes.parameters);
  const double statistics = bytes_of(question.network.shapes.statistics);
  const double state = learned * static_cast<double>(slots.size());
  double image = sizeof(float);
  for (const int64_t edge : job.network.image_shape) image *= static_cast<double>(edge);
  // Each loader holds the batch in use and those that it has read ahead.
  const auto ahead = static_cast<double>(std::max<int64_t>(1, question.flags.data.prefetch_buffer) + 1);
  const bool adds_up = job.scheme.elastic_batch == job::ElasticBatch::kKeep;  // the gradients of several steps
  PlannedMemory plan{.weights = devices * (learned + statistics),
                     .gradients = devices * learned * (adds_up ? 2 : 1),
                     .activations = activations,
                     .batches = (question.validates ? 2 : 1) * ahead * static_cast<double>(job.batch_size) * image};
  if (job.num_servers > 0) {
    plan.server = (2 * learned + state) / static_cast<double>(job.num_servers);
  } else {
    const bool replicates = update_place(job::store_of(job), job::worker_seats(job)) == kvstore::UpdateAt::kReplicas;
    plan.optimizer = state * (replicates ? devices : 1);
  }
  return plan;
}

Result<PlannedMemory> plan_memory(const MemoryQuestion& question, int64_t batch_size) {
  DT_TRY(const double activations, compiled_bytes(question, batch_size));
  const job::Flags flags = with_batch(question.flags, batch_size);
  return planned_memory({flags, question.network, question.validates, question.host}, activations);
}

Result<int64_t> largest_batch(const BatchRange& range, double limit,
                              const std::function<Result<double>(int64_t)>& bytes_at) {
  constexpr int kQuestionsMax = 8;
  constexpr double kCloseEnough = 0.997;  // the search ends when a batch needs more than this share of the limit
  int64_t low = range.least, high = range.too_large;
  if (low >= high) return int64_t{0};
  DT_TRY(double low_bytes, bytes_at(low));
  double high_bytes = range.too_large_bytes;
  if (low_bytes > limit) return int64_t{0};
  for (int i = 0; i < kQuestionsMax && high - low > 1 && low_bytes < kCloseEnough * limit; i++) {
    const double part = std::isfinite(high_bytes) ? (limit - low_bytes) / std::max(1.0, high_bytes - low_bytes) : 0.5;
    const auto guess = low + static_cast<int64_t>(std::floor(part * static_cast<double>(high - low)));
    const int64_t next = std::clamp(guess, low + 1, high - 1);
    DT_TRY(const double bytes, bytes_at(next));
    (bytes <= limit ? low : high) = next;
    (bytes <= limit ? low_bytes : high_bytes) = bytes;
  }
  return low;
}

Result<std::string> judge_memory(const MemoryQuestion& question, const PlannedMemory& plan,
                                 const UsableMemory& memory) {
  const double needed = plan.on(question.host);
  if (needed <= memory.free_bytes) return std::string();
  const std::string need = need_text(question, plan);
  if (needed > memory.bytes) {
    DT_TRY(const std::string what_fits, advice(question, plan, memory.bytes));
    return fail(Code::kUsage, "{}, but only {} can be used on this host: {}", need, bytes_text(memory.bytes),
                what_fits);
  }
  DT_TRY(const std::string what_fits, advice(question, plan, memory.free_bytes));
  return fmt::format("{}, but only {} are free: end other programs, or the job may run out of memory; {}", need,
                     bytes_text(memory.free_bytes), what_fits);
}

Result<std::string> judge_memory(const MemoryQuestion& question, const UsableMemory& memory) {
  constexpr double kPlanToBound = 16;  // the plan of a network never needs more than this multiple of its lower bound
  const job::Flags& flags = question.flags;
  if (!flags.device.gpus.empty()) return std::string();
  const MemoryNeed need = memory_need(question.network);
  const double least = need.bytes(flags.job.batch_size) * static_cast<double>(question.host.workers);
  if (least * kPlanToBound < memory.free_bytes) return std::string();
  // The parameters must fit, because they are zeroed when the network is compiled.
  const double weights = need.weights * static_cast<double>(flags.device.count());
  if (weights > memory.free_bytes || need.bytes(1) > memory.bytes) {
    DT_TRY_VOID(
        check_memory(need, flags.job.network.network, flags.job.batch_size, memory.bytes, question.host.workers));
    return std::string();
  }
  DT_TRY(const PlannedMemory plan, plan_or_estimate(question, least > memory.bytes));
  return judge_memory(question, plan, memory);
}

}  // namespace dtrain::role
