#include "bench/kv.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/json.h"
#include "bench/kv_devices.h"
#include "bench/kv_peers.h"
#include "bench/kv_plan.h"
#include "bench/timing.h"
#include "bench/unary_calls.h"
#include "job/flags/store.h"

namespace dtrain::bench {
namespace {

// Calls of at most 4 MiB each, several of them in flight: in measurements, this was the fastest variant of the
// baseline.
constexpr size_t kBaselineChunk = 4 << 20;
constexpr int kBaselineWindow = 8;

// The baseline: sends the gradients and receives the weights in unary calls.
class Baseline {
 public:
  Baseline(const KvPlan& plan, uint16_t port)
      : client_(UnaryClient::create({"127.0.0.1", port})), arrays_(plan, 0), count_(plan.arrays()) {
    for (size_t key = 0; key < count_; key++) {
      const ParameterSpan& parameter = arrays_.view().parameters[key];
      out_.push_back(std::as_bytes(parameter.gradient));
      back_.push_back(std::as_writable_bytes(parameter.weight));
    }
  }
  Result<double> exchange() { return client_->exchange(out_, back_, kBaselineChunk, kBaselineWindow); }

 private:
  std::unique_ptr<UnaryClient> client_;
  KvArrays arrays_;
  size_t count_;
  std::vector<std::span<const std::byte>> out_;
  std::vector<std::span<std::byte>> back_;
};

class KvBench {
 public:
  KvBench(const BenchKvOptions& options, const KvPlan& plan, const std::function<void(std::string_view)>& line)
      : options_(options), plan_(plan), line_(line) {
    result_.options = options;
    result_.bytes = plan.bytes();
    result_.arrays = plan.arrays();
    result_.processes = options.processes && is_single_threaded();
  }

  // The last peer must be destroyed first: each forked process has inherited the pipes of the peers that were started
  // before it, and keeps them open.
  ~KvBench() {
    worker_.reset();
    while (!peers_.empty()) peers_.pop_back();
  }
  KvBench(const KvBench&) = delete;
  KvBench& operator=(const KvBench&) = delete;

  Result<BenchKvResult> run() {
    DT_TRY_VOID(start_peers());
    // From here on, this process has several threads, so it can no longer fork.
    DT_TRY(worker_, KvWorker::connect(plan_, 0, server_ports_));
    Baseline baseline(plan_, baseline_port_);
    if (options_.test_results) reference_ = std::make_unique<KvReference>(plan_, options_.workers);
    double cpu_before = 0;
    for (int64_t batch = 0; batch <= options_.num_batches; batch++) {
      DT_TRY_VOID(measure(batch, baseline));
      if (batch == 0) cpu_before = server_cpu_s();
    }
    note_server_use(server_cpu_s() - cpu_before);
    for (uint64_t step = 0; step < kSmallRounds; step++) {
      DT_TRY(const double seconds, timed([&] { return worker_->exchange_small(step); }));
      small_.push_back(seconds);
    }
    return summary();
  }

 private:
  // Starts the servers before the workers, which need the ports of the servers.
  Result<> start_peers() {
    for (uint32_t server = 0; server < options_.servers; server++) {
      DT_TRY(const uint16_t port, add(serve_slices(plan_, server)), "starting server {} of the bench", server);
      server_ports_.push_back(port);
    }
    DT_TRY(baseline_port_, add(serve_baseline(plan_)));
    for (uint32_t worker = 1; worker < options_.workers; worker++) {
      const auto batches = static_cast<uint64_t>(options_.num_batches + 1);
      DT_TRY_VOID(add(work_along(plan_, worker, server_ports_, batches, kSmallRounds)));
    }
    return {};
  }

  Result<uint16_t> add(KvWork work) {
    DT_TRY(KvStarted started, start_peer(result_.processes, std::move(work)));
    peers_.push_back(std::move(started.peer));
    return started.number;
  }

  // Measures one exchange and one of the baseline. They alternate so that other load on the host affects both. Batch 0
  // is for warm-up.
  Result<> measure(int64_t batch, Baseline& baseline) {
    DT_TRY(const double seconds, timed([&] { return worker_->exchange(static_cast<uint64_t>(batch)); }));
    DT_TRY(const double unary_seconds, baseline.exchange());
    double error = 0;
    if (reference_) {
      reference_->update();
      error = reference_->error(worker_->view());
      result_.error = std::max(result_.error, error);
    }
    if (batch == 0) return {};
    batches_.push_back(seconds);
    unary_.push_back(unary_seconds);
    if (batch % options_.disp_batches == 0) line_(result_.line(batch, seconds, error));
    return {};
  }

  // Processor time of the servers, which are the first peers; 0 if they are threads.
  [[nodiscard]] double server_cpu_s() const {
    double seconds = 0;
    for (uint32_t server = 0; server < options_.servers; server++) {
      if (const std::optional<KvUse> use = peers_[server]->use()) seconds += use->cpu_s;
    }
    return seconds;
  }

  void note_server_use(double cpu_s) {
    BenchKvResult::ServerUse all;
    all.cpu_ms = cpu_s * 1e3 / (static_cast<double>(options_.num_batches) * options_.workers);
    for (uint32_t server = 0; server < options_.servers; server++) {
      const std::optional<KvUse> use = peers_[server]->use();
      if (!use) return;
      const uint64_t own = plan_.bytes_on_server(server);
      all.extra_bytes = std::max(all.extra_bytes, use->peak_bytes - std::min(use->peak_bytes, own));
    }
    result_.server_use = all;
  }

  BenchKvResult summary() {
    result_.set_times(batches_, small_);
    result_.proto_bytes_ms = median(unary_) * 1e3;
    return result_;
  }

  const BenchKvOptions& options_;
  const KvPlan& plan_;
  const std::function<void(std::string_view)>& line_;
  BenchKvResult result_;
  std::vector<std::unique_ptr<KvPeer>> peers_;
  std::vector<uint16_t> server_ports_;
  uint16_t baseline_port_ = 0;
  std::unique_ptr<KvReference> reference_;
  std::vector<double> batches_;
  std::vector<double> unary_;
  std::vector<double> small_;
  std::unique_ptr<KvWorker> worker_;
};

}  // namespace

double BenchKvResult::speed(double seconds) const {
  const double moved = static_cast<double>(bytes) * (is_of_devices() ? 2.0 - 2.0 / options.devices : 1.0);
  return moved / seconds / 1e9;
}

std::string BenchKvResult::line(int64_t batch, double seconds, double error_of_batch) const {
  return fmt::format("iter {}, {:f} sec, {:f} GB/sec per gpu, error {:f}", batch, seconds, speed(seconds),
                     error_of_batch);
}

void BenchKvResult::set_times(const std::vector<double>& batches, const std::vector<double>& small_keys) {
  ms = {median(batches) * 1e3, *std::ranges::min_element(batches) * 1e3, *std::ranges::max_element(batches) * 1e3};
  gb_per_s = speed(median(batches));
  small_key_us = median(small_keys) * 1e6;
}

std::string BenchKvResult::json() const {
  nlohmann::ordered_json object = {{"bytes", bytes}, {"arrays", arrays}, {"store", options.store}};
  if (is_of_devices()) {
    object["devices"] = options.devices;
  } else {
    object["workers"] = options.workers;
    object["servers"] = options.servers;
    object["processes"] = processes;
  }
  object["ms"] = {{"median", ms.median}, {"min", ms.min}, {"max", ms.max}};
  object["gb_per_s"] = gb_per_s;
  object["small_key_us"] = small_key_us;
  object["error"] = error;
  if (!is_of_devices()) object["proto_bytes_ms"] = proto_bytes_ms;
  if (server_use) object["server_cpu_ms"] = server_use->cpu_ms;
  if (server_use) object["server_extra_bytes"] = server_use->extra_bytes;
  return json_text(object);
}

std::string BenchKvResult::text() const {
  const std::string where = is_of_devices()
                                ? fmt::format("{} CPU devices", options.devices)
                                : fmt::format("{} workers, {} servers ({})", options.workers, options.servers,
                                              processes ? "processes" : "threads of one process");
  std::string text = fmt::format(
      "{} arrays, {:.1f} MB, {}, {}\n"
      "push and pull {:.1f} ms (median; {:.1f} to {:.1f}), {:.2f} GB/s; a small key {:.0f} us; error {:.2g}\n",
      arrays, static_cast<double>(bytes) / 1e6, where, options.store, ms.median, ms.min, ms.max, gb_per_s, small_key_us,
      error);
  if (is_of_devices()) return text;
  if (server_use) {
    text += fmt::format(
        "the servers use {:.1f} ms of processor time for each worker and batch; a server uses at most {:.0f} MB "
        "besides its values\n",
        server_use->cpu_ms, static_cast<double>(server_use->extra_bytes) / 1e6);
  }
  return text + fmt::format("the same with unary calls and protobuf bytes: {:.1f} ms, {:.2f} times as long\n",
                            proto_bytes_ms, proto_bytes_ms / ms.median);
}

Result<BenchKvResult> bench_kv(const BenchKvOptions& options, const std::function<void(std::string_view)>& line) {
  const job::Store store = job::store_by_name(options.store);
  if (store.servers && options.store != "dist_sync") {
    return fail(Code::kUsage, "bench kv measures dist_sync and the stores within one process, not '{}'", options.store);
  }
  if (store.servers == (options.devices > 1)) {
    return fail(Code::kUsage, "--kv-store {}: {}", options.store,
                store.servers ? "in this benchmark, its workers have one device each: leave out --cpus"
                              : "give the number of devices, at least 2, with --cpus");
  }
  if (options.workers < 1 || options.servers < 1 || options.num_batches < 1 || options.disp_batches < 1) {
    return fail(Code::kUsage,
                "the numbers of workers and servers, --num-batches and --disp-batches must be at least 1");
  }
  DT_TRY(const KvPlan plan, make_kv_plan(options));
  if (options.devices > 1) return bench_devices(options, plan, line);
  return KvBench(options, plan, line).run();
}

}  // namespace dtrain::bench
