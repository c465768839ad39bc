// A deterministic job that loses a worker and continues without it (--on-worker-loss shrink) has the bits of a
// recomputation: one process repeats what the servers' event logs (--trace-events) say has happened. It computes the
// gradients of the workers one after the other and adds those to each slice that the server has added.
#include <array>
#include <csignal>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>

#include "base/random.h"
#include "cluster/changing_job.h"
#include "data/loading/loader.h"
#include "kvstore/server/slice_values.h"
#include "role/server/server.h"
#include "role/setup/data.h"
#include "role/setup/devices.h"
#include "role/setup/network.h"
#include "role/setup/shares.h"
#include "role/worker/loading.h"
#include "role/worker/training_options.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/drawn_seeds.h"
#include "support/must.h"
#include "support/process_of_job.h"
#include "train/checkpoint.h"
#include "train/fakes.h"
#include "train/start.h"
#include "train/step.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

using Ranks = std::set<uint32_t>;
// For each slice, the workers whose gradients are in each of its updates.
using Updates = std::map<kvstore::SliceId, std::vector<Ranks>>;

void add_updates(const std::string& event_log, Updates& updates) {
  std::map<kvstore::SliceId, Ranks> open;
  std::istringstream lines(event_log);
  kvstore::SliceId slice;
  for (std::string line; std::getline(lines, line);) {
    uint32_t rank = 0;
    if (std::sscanf(line.c_str(), "  add %u to group ", &rank) == 1) {
      open[slice].insert(rank);
    } else if (line.starts_with("  apply group ")) {
      updates[slice].push_back(std::exchange(open[slice], {}));
    } else if (!line.starts_with("  ") && !line.starts_with("slice ")) {
      REQUIRE(std::sscanf(line.c_str(), "%u.%u ", &slice.key, &slice.slice) == 2);
    }
  }
}

std::array<std::span<const std::byte>, 1> bytes_of(std::span<const float> floats) {
  return {std::as_bytes(floats)};
}

// The job as its run directory describes it, in this process.
class Recomputation {
 public:
  Recomputation(const std::vector<std::string>& arguments, const std::string& run_dir)
      : flags_(must(job::parse_flags(arguments, [](const std::string&) { return std::nullopt; })).flags) {
    must(role::complete_flags(flags_));
    spec_ = must(job::read_job_spec(run_dir));
    flags_.job = spec_.flags;
    network_.emplace(must(role::build_network(spec_.flags)));
    data_ = must(role::open_data(flags_, 0, Log::silent()));
    buckets_ = role::plan_buckets(flags_, *network_);
    options_ = must(role::training_options({.flags = flags_,
                                            .spec = spec_,
                                            .plan = job::plan_of(spec_),
                                            .network = *network_,
                                            .data = data_,
                                            .bucket_begin = buckets_,
                                            .run_dir = run_dir,
                                            .resumed = std::nullopt}));
    devices_.emplace(must(role::Devices::open(flags_, Log::silent())));
    exec::Options compiled = options_.training;
    compiled.batch_size = options_.device_batches.at(0);
    executors_.emplace(must(devices_->backend(0).compile(network_->graph, compiled, nullptr)), compiled.batch_size);
    make_slices();
  }

  // Makes all updates. `left`: the workers that divide the records from this epoch on.
  void run(const Updates& updates, const std::map<int64_t, std::vector<uint32_t>>& left) {
    const size_t count = updates.begin()->second.size();
    std::vector<uint32_t> live;
    job::EpochRule rule;
    int64_t epoch = -1;
    uint64_t step = 0;  // of each worker, as if the present ones had trained from the beginning
    for (size_t update = 0; update < count; update++) {
      if (epoch < 0 || step == static_cast<uint64_t>(rule.steps_until(epoch + 1))) {
        epoch++;
        const auto now = left.upper_bound(epoch);
        if (std::prev(now)->second != live) {
          live = std::prev(now)->second;
          const job::JobSpec spec = must(role::spec_of_live(spec_, live));
          rule = job::plan_of(spec).epoch_of.front();
          open_loaders(spec, live);
        }
        step = static_cast<uint64_t>(rule.steps_until(epoch));
        for (auto& [rank, loader] : loaders_) loader->start(epoch);
      }
      make(updates, update);
      step++;
    }
    CHECK(epoch + 1 == spec_.flags.num_epochs);
    CHECK(step == static_cast<uint64_t>(rule.steps_until(epoch + 1)));
  }

  // The names of the arrays, of weights or of the optimizer's state, that differ from the checkpoint.
  std::string differences(const train::Checkpoint& checkpoint) {
    std::map<std::string, std::vector<float>> wanted;
    for (const auto* arrays : {&checkpoint.parameters, &checkpoint.slots}) {
      for (const NamedArray& array : *arrays) wanted[array.name] = array.values;
    }
    std::string text;
    for (Slice& slice : slices_) {
      const std::string name = view().parameters[slice.of.key].name;
      slice.values.keep(0);
      const auto differs = [&](const std::string& array, std::span<const float> own) {
        const std::vector<float>& all = wanted[array];
        if (all.size() < slice.of.begin + own.size()) return true;
        return !std::equal(own.begin(), own.end(), all.begin() + static_cast<ptrdiff_t>(slice.of.begin));
      };
      if (differs(name, slice.values.kept(0).values.values)) text += name + " ";
      if (differs(name + ":mom", slice.values.state(0))) text += name + ":mom ";
    }
    return text;
  }

 private:
  struct Slice {
    kvstore::Slice of;
    kvstore::SliceValues& values;
  };
  const ParameterView& view() { return executors_->parameters(); }
  std::span<float> part(std::span<float> array, const kvstore::Slice& slice) {
    return array.subspan(slice.begin, slice.count);
  }

  void make_slices() {
    const train::TrainSpec& spec = options_.trainer;
    must(train::make_start({.from = std::nullopt,
                            .pretrained = "",
                            .initializer = spec.initializer,
                            .optimizer = spec.optimizer,
                            .seed = spec.seed,
                            .job_hash = spec.job_hash,
                            .job_text = spec.job_text,
                            .epoch = spec.epoch},
                           network_->graph, view(), Log::silent()));
    shard_ = must(role::shard_options(flags_, spec_, *network_, 0));
    for (const kvstore::Slice& slice : shard_.placement) {
      if (slice.key >= shard_.parameters.size()) continue;
      kvstore::SliceValues& values =
          *values_.emplace_back(std::make_unique<kvstore::SliceValues>(shard_, slice, /*slot_count=*/1));
      values.set_weights(bytes_of(part(view().parameters[slice.key].weight, slice)), {});
      values.begin_rounds(1);
      slices_.push_back({slice, values});
    }
  }

  void open_loaders(const job::JobSpec& spec, const std::vector<uint32_t>& live) {
    loaders_.clear();
    for (uint32_t i = 0; i < live.size(); i++) {
      loaders_[live[i]] = std::make_unique<data::Loader>(
          data_.train, role::training_loading(flags_, spec, *data_.train, options_.training_data.labels, i),
          Log::silent());
    }
  }

  void make(const Updates& updates, size_t update) {
    for (const auto& [rank, loader] : loaders_) {
      const data::LoadedBatch* batch = must(loader->next());
      REQUIRE(batch != nullptr);
      const auto has = [&](const Slice& slice) {
        return updates.at({slice.of.key, slice.of.part}).at(update).contains(rank);
      };
      if (std::ranges::none_of(slices_, has)) continue;
      compute(rank, *batch, update);
      for (Slice& slice : slices_) {
        if (!has(slice)) continue;
        const std::span<float> gradient = part(view().parameters[slice.of.key].gradient, slice.of);
        slice.values.add(0, rank, static_cast<uint32_t>(batch->count), bytes_of(gradient));
      }
    }
    for (Slice& slice : slices_) {
      REQUIRE(slice.values.update(0, 1) == kvstore::SliceValues::Outcome::kApplied);
      slice.values.keep(0);
      const std::span<const float> weights = slice.values.kept(0).values.values;
      std::ranges::copy(weights, part(view().parameters[slice.of.key].weight, slice.of).begin());
      slice.values.release(0);
    }
  }

  void compute(uint32_t rank, const data::LoadedBatch& batch, uint64_t step) {
    train::StepRunner runner({.graph = network_->graph,
                              .inputs = options_.training.inputs,
                              .devices = *executors_,
                              .bucket_begin = buckets_,
                              .store = store_,
                              .rank = rank,
                              .workers = static_cast<uint32_t>(spec_.flags.num_workers),
                              .log = Log::silent()});
    must(runner.launch(batch, step));
    REQUIRE(must(runner.finish()));
  }

  job::Flags flags_;
  job::JobSpec spec_;
  std::optional<role::Network> network_;
  data::DataSets data_;
  std::vector<size_t> buckets_;
  role::TrainingOptions options_;
  std::optional<role::Devices> devices_;
  std::optional<exec::DeviceGroup> executors_;
  train::test::SilentStore store_;
  kvstore::ShardOptions shard_;
  std::vector<std::unique_ptr<kvstore::SliceValues>> values_;
  std::vector<Slice> slices_;
  std::map<uint32_t, std::unique_ptr<data::Loader>> loaders_;
};

// From which epoch on the workers that are left divide the records, as the log of one of them says; -1: never.
int64_t divided_from(const std::string& log) {
  const size_t at = log.find("workers are left: from epoch ");
  long epoch = -1;
  if (at != std::string::npos) std::sscanf(log.c_str() + at, "workers are left: from epoch %ld on", &epoch);
  return epoch - 1;
}

}  // namespace

TEST_CASE("a deterministic job that shrinks has the bits of a recomputation from the servers' event logs",
          "[recompute]") {
  const ChangingJobs jobs("shrink", command_line("--kv-store dist_sync --deterministic"));
  const auto [first, last] = drawn_seeds("DTRAIN_RECOMPUTE_SEEDS");
  for (uint64_t seed = first; seed <= last; seed++) {
    INFO("seed " << seed);
    RandomStream random(seed, Use::kFaults, 200);
    const std::string run_dir = "run" + std::to_string(seed);
    const std::vector<std::string> more = command_line(
        "--data-dir", jobs.path("data"), "--num-epochs 4 --save-period 4 --trace-events", jobs.path("events"));
    const std::vector<std::string> command = jobs.command(run_dir, more);
    Process launcher(jobs.command(run_dir, command_line(more, "--inject step-ms=6")), jobs.options());
    REQUIRE(launcher.wait_for_output("Epoch[0] Batch [", kRunSeconds));
    launcher.wait_for_output("no process prints this", 0.4 * random.uniform());
    const auto lost = static_cast<uint32_t>(random.below(kWorkers));
    REQUIRE(::kill(process_of_job(jobs.path(run_dir), "worker", lost), SIGKILL) == 0);
    const Ended end = launcher.wait(kRunSeconds);
    INFO("killed worker " << lost << "\n" << end.output);
    REQUIRE(end.code == 0);

    Updates updates;
    for (const std::string name : {"events.0", "events.1"}) {
      CHECK(jobs.ask({"simulate", "--replay", name}).code == 0);
      add_updates(jobs.text_of(name), updates);
    }
    std::map<int64_t, std::vector<uint32_t>> left = {{0, {0, 1, 2}}};
    const int64_t from = divided_from(jobs.text_of(run_dir + (lost == 2 ? "/worker-1.log" : "/worker-2.log")));
    REQUIRE(from > 0);
    left[from] = left[0];
    std::erase(left[from], lost);
    Recomputation recomputed({command.begin() + 1, command.end()}, jobs.path(run_dir));
    recomputed.run(updates, left);
    const train::Checkpoint checkpoint = must(train::read_checkpoint({jobs.path(run_dir) + "/lenet", 4}));
    CHECK(recomputed.differences(checkpoint) == "");
  }
}
