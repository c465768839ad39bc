// What processes of every role have: flags, a log, a run directory, and possibly a run to resume.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/step_faults.h"
#include "base/waits.h"
#include "job/spec/job_spec.h"
#include "role/process/run_dir.h"
#include "rpc/library_log.h"
#include "telemetry/process_use.h"
#include "telemetry/registry.h"
#include "telemetry/tracer.h"

namespace dtrain::role {

class Process {
 public:
  // Finds the run to resume and creates the run directory. `name` is used in the log's prefix and file name: "worker",
  // "server" or "scheduler".
  static Result<Process> open(const job::Flags& flags, const Signals& signals, const std::string& name);

  // Sets the rank, once it is known, or a new one. From then on the log's prefix is Node[RANK] for a worker and
  // Node[server RANK] for a server, and the log is copied to RUN_DIR/NAME-RANK.log and to --log-file.
  Result<> take_rank(uint32_t rank);

  job::Flags flags;
  const Signals& signals;
  Log log;
  std::optional<Resumed> resumed;
  RunDir run_dir;
  std::unique_ptr<telemetry::Tracer> tracer = std::make_unique<telemetry::Tracer>(log);
  // The metrics of this process; never null.
  std::unique_ptr<telemetry::Registry> registry = std::make_unique<telemetry::Registry>();
  // Armed from the start if the rank is given, otherwise by take_rank(); never null.
  std::shared_ptr<FailPoints> fail_points = std::make_shared<FailPoints>();

 private:
  Process(const job::Flags& f, const Signals& s, Log l, std::optional<Resumed> r, RunDir d, std::string name)
      : flags(f), signals(s), log(std::move(l)), resumed(std::move(r)), run_dir(std::move(d)), name_(std::move(name)) {}
  std::string name_;
  std::optional<uint32_t> rank_;
  std::unique_ptr<rpc::LibraryLines> library_lines_;
  telemetry::Registry::Handle process_use_ = telemetry::collect_process_use(*registry);
};

// The seed of the job: --seed, else that of the resumed run, else a random one.
uint64_t choose_seed(const Process& process);

// The faults that --inject asks this process to simulate. `rank` is the rank of this worker, server or scheduler. A
// worker that the launcher has started in the place of a lost one is neither killed nor stopped.
job::Faults own_faults(const job::Flags& flags, uint32_t rank);

}  // namespace dtrain::role
