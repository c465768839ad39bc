#include "job/resolve/scheme.h"

#include "job/flags/flags.h"
#include "job/flags/optimizers.h"
#include "job/flags/rows.h"
#include "job/spec/job_plan.h"
#include "job/spec/job_spec.h"

namespace dtrain::job {

namespace {

// A flag that only some jobs use, and how to tell whether a job does.
struct FlagReader {
  const char* flag;
  bool (*reads)(const Flags& flags, const Store& store);
  const char* who;
};

bool has_bound(const Flags& flags, const Store& store) {
  return store.scheme == Scheme::kSsp || (store.scheme == Scheme::kGsp && flags.job.scheme.group_staleness);
}
bool has_groups(const Flags&, const Store& store) {
  return store.scheme == Scheme::kGsp;
}
bool has_rounds_on_servers(const Flags&, const Store& store) {
  return store.servers && store.scheme == Scheme::kBsp;
}
bool has_sharding_file(const Flags& flags, const Store&) {
  return flags.job.scheme.data_allocator;
}

constexpr const char* kOfSsp = "dist_ssync and dist_device_ssync use it";
constexpr const char* kOfGsp = "dist_gsync and dist_device_gsync use it";
constexpr const char* kOfShares = "jobs with --data-allocator 1 use it";

constexpr FlagReader kReaders[] = {
    {"staleness", [](const Flags&, const Store& store) { return store.scheme == Scheme::kSsp; }, kOfSsp},
    {"ssp-warn", has_bound, "dist_ssync uses it, and dist_gsync with --group-staleness"},
    {"groups-file", has_groups, kOfGsp},
    {"ungrouped", has_groups, kOfGsp},
    {"gsp-weight", has_groups, kOfGsp},
    {"group-staleness", has_groups, kOfGsp},
    {"regroup-every", has_groups, kOfGsp},
    {"backup", has_rounds_on_servers, "dist_sync and dist_device_sync use it"},
    {"trace-events", [](const Flags&, const Store& store) { return store.servers; }, "stores with servers use it"},
    {"data-sharding-file", has_sharding_file, kOfShares},
    {"allow-gaps", has_sharding_file, kOfShares},
};

// The flag with its value: "--staleness 3".
std::string given_text(const Flags& flags, const std::string& name) {
  for (const Row& row : training_flags().rows()) {
    if (row.name == name) return fmt::format("--{} {}", name, row.bind.get(flags));
  }
  DT_CHECK(false, "no flag '{}'", name);
  return {};
}

Result<> check_readers(const Flags& flags, const Store& store) {
  for (const FlagReader& reader : kReaders) {
    const Source source = flags.source(reader.flag);
    if (source == Source::kDefault || source == Source::kResumed || reader.reads(flags, store)) continue;
    return fail(Code::kUsage, "{}: the store {} does not use this flag; {}", given_text(flags, reader.flag),
                flags.job.scheme.kv_store, reader.who);
  }
  return {};
}

Result<> check_backup(const JobFlags& job) {
  const SchemeFlags& scheme = job.scheme;
  if (scheme.backup == 0) return {};
  if (scheme.backup >= job.num_workers) {
    return fail(Code::kUsage, "--backup {}: a round must wait for at least one of the {} workers", scheme.backup,
                job.num_workers);
  }
  if (scheme.update_on == UpdateOn::kWorker) {
    return fail(Code::kUsage,
                "--backup {} with --update-on worker: a late worker would miss updates of its own weights; leave out "
                "one of them",
                scheme.backup);
  }
  if (scheme.deterministic) {
    return fail(
        Code::kUsage,
        "--backup {} with --deterministic: the result depends on which gradients arrive in time; leave out one of them",
        scheme.backup);
  }
  return {};
}

Result<> check_deterministic(const JobFlags& job, const Store& store) {
  const bool by_arrival = store.scheme == Scheme::kAsp || store.scheme == Scheme::kSsp;
  if (!job.scheme.deterministic || job.num_workers == 1) return {};
  if (job.scheme.regroup_every > 0) {
    return fail(Code::kUsage,
                "--deterministic with --regroup-every {}: the groups depend on measured times; leave out one of them",
                job.scheme.regroup_every);
  }
  if (!by_arrival) return {};
  return fail(Code::kUsage,
              "--deterministic with --kv-store {}: the gradients of the {} workers are applied in order of arrival; "
              "leave out one of them",
              job.scheme.kv_store, job.num_workers);
}

// A given flag that has an effect only if the workers can change while the job runs; empty: there is none.
std::string flag_of_changing_workers(const Flags& flags) {
  const SchemeFlags& scheme = flags.job.scheme;
  if (scheme.reshare == Reshare::kNow) return "--reshare now";
  if (scheme.elastic_batch != ElasticBatch::kOff) return given_text(flags, "elastic-batch");
  if (flags.wire.drain) return "--drain";
  if (scheme.max_workers > 0) return "--max-workers";
  return flags.wire.min_workers > 1 ? "--min-workers" : "";
}

Result<> check_worker_loss(const Flags& flags, const Store& store) {
  const JobFlags& job = flags.job;
  if (job.scheme.on_worker_loss == OnWorkerLoss::kFail) {
    const std::string flag = flag_of_changing_workers(flags);
    if (flag.empty()) return {};
    return fail(Code::kUsage,
                "{} needs --on-worker-loss wait or shrink: otherwise the workers cannot change while the job runs",
                flag);
  }
  const std::string policy =
      fmt::format("--on-worker-loss {}", job.scheme.on_worker_loss == OnWorkerLoss::kWait ? "wait" : "shrink");
  if (flags.wire.min_workers > job.num_workers) {
    return fail(Code::kUsage, "--min-workers {}: the job has only {} workers (-n)", flags.wire.min_workers,
                job.num_workers);
  }
  if (job.scheme.max_workers > 0 && job.scheme.max_workers < job.num_workers) {
    return fail(Code::kUsage, "--max-workers {}: the job starts with more workers (-n {})", job.scheme.max_workers,
                job.num_workers);
  }
  if (job.num_workers == 1 && job.scheme.max_workers < 2) {
    return fail(Code::kUsage, "{}: the run has only one worker; use --max-restarts", policy);
  }
  if (store.sum == Sum::kNccl && !flags.device.gpus.empty()) {
    return fail(
        Code::kUsage,
        "{}: with {}, the GPUs add up their gradients over NCCL, whose groups cannot continue without a member; "
        "use allreduce or a store with servers such as dist_sync, or --max-restarts, which starts all processes "
        "again from the last checkpoint",
        policy, job.scheme.kv_store);
  }
  if (job.time_batches_after) {
    return fail(Code::kUsage, "{}: a benchmark measures all workers; use --on-worker-loss fail", policy);
  }
  if (job.scheme.regroup_every > 0) {
    return fail(Code::kUsage, "{} with --regroup-every {}: leave out one of them", policy, job.scheme.regroup_every);
  }
  return {};
}

Result<> check_snapshots(const Flags& flags, const Store& store) {
  const JobFlags& job = flags.job;
  const std::string flag = fmt::format("--snapshot-every {}", job.scheme.snapshot_every);
  if (!store.servers) {
    return fail(Code::kUsage, "{}: the job has no servers with --kv-store {}; use --on-worker-loss or --max-restarts",
                flag, job.scheme.kv_store);
  }
  if (store.update == Update::kWorker) {
    return fail(Code::kUsage, "{} with --update-on worker: the servers have no weights; use --max-restarts", flag);
  }
  return {};
}

// The batches of an update, one of each worker at the start, must be divided evenly among any number of workers that
// the job may have. Only the scheduler and the launcher know the least number.
Result<> check_batches_kept(const Flags& flags) {
  const JobFlags& job = flags.job;
  const std::string flag = given_text(flags, "elastic-batch");
  if (job.scheme.backup > 0) {
    return fail(Code::kUsage,
                "{} with --backup {}: an update has the gradients of the workers that come in time; leave out one of "
                "them",
                flag, job.scheme.backup);
  }
  if (flags.launch.role == Role::kWorker || flags.launch.role == Role::kServer) return {};
  const int64_t batches = job.num_workers;
  for (int64_t workers = flags.wire.min_workers; workers <= worker_seats(job); workers++) {
    if (batches % workers == 0) continue;
    return fail(Code::kUsage,
                "{}: the job may have {} workers, and the {} batches of an update (-n) cannot be divided evenly among "
                "them; give {} {}, or use --elastic-batch scale",
                flag, workers, batches, workers > batches ? "--max-workers" : "--min-workers", batches);
  }
  return {};
}

Result<> check_elastic_batch(const Flags& flags, const Store& store) {
  const JobFlags& job = flags.job;
  if (job.scheme.elastic_batch == ElasticBatch::kOff) return {};
  const std::string flag = given_text(flags, "elastic-batch");
  if (store.scheme != Scheme::kBsp) {
    return fail(Code::kUsage,
                "{}: an update of {} has the gradients of some workers only, so its samples do not follow the number "
                "of workers; use a store whose workers make each update together, such as dist_sync",
                flag, job.scheme.kv_store);
  }
  if (job.scheme.elastic_batch == ElasticBatch::kKeep) return check_batches_kept(flags);
  if (optimizer_name(job.optimizer.optimizer) == "adadelta") {
    return fail(Code::kUsage, "{}: the optimizer adadelta has no learning rate", flag);
  }
  return {};
}

}  // namespace

Result<> check_scheme(const Flags& flags) {
  const JobFlags& job = flags.job;
  const Store store = store_of(job);
  DT_TRY_VOID(check_readers(flags, store));
  DT_TRY_VOID(check_backup(job));
  DT_TRY_VOID(check_deterministic(job, store));
  DT_TRY_VOID(check_worker_loss(flags, store));
  if (flags.job.scheme.snapshot_every > 0) DT_TRY_VOID(check_snapshots(flags, store));
  DT_TRY_VOID(check_elastic_batch(flags, store));
  if (job.scheme.resplit_every > 0 && job.scheme.allow_gaps) {
    return fail(
        Code::kUsage,
        "--resplit-every {} with --allow-gaps: shares with gaps between them cannot rotate; leave out one of them",
        job.scheme.resplit_every);
  }
  return {};
}

std::string learning_rate_hint(const JobFlags& job) {
  const Store store = store_of(job);
  const int64_t workers = job.num_workers;
  if (workers == 1 || store.scheme == Scheme::kBsp || store.scheme == Scheme::kGsp) return {};
  if (optimizer_name(job.optimizer.optimizer) == "adadelta") return {};  // adadelta has no learning rate
  const bool waits_like_bsp = store.scheme == Scheme::kSsp && job.scheme.staleness == 0;
  return fmt::format(
      "{} with {} workers{} makes {} updates at the full learning rate {}, while dist_sync makes one: unless you chose "
      "that rate for {}, start with --lr {:.6g} (lr/W)",
      job.scheme.kv_store, workers, waits_like_bsp ? " and --staleness 0" : "", workers, job.optimizer.lr,
      job.scheme.kv_store, job.optimizer.lr / static_cast<double>(workers));
}

}  // namespace dtrain::job
