#include "role/role.h"

#include "job/flags/flags.h"
#include "role/scheduler/scheduler.h"
#include "role/server/server.h"
#include "role/setup/devices.h"
#include "role/worker/worker.h"

namespace dtrain::role {

Result<int> run_process(job::Flags flags, const Signals& signals, const OnRunDir& on_run_dir) {
  const bool has_devices = flags.launch.role == job::Role::kWorker || flags.launch.role == job::Role::kNone;
  if (has_devices) DT_TRY_VOID(find_gpus(flags.device));
  switch (flags.launch.role) {
    case job::Role::kScheduler: return run_scheduler(flags, signals);
    case job::Role::kServer: return run_server(flags, signals);
    case job::Role::kWorker: return run_worker(flags, signals);
    case job::Role::kNone: return run_alone(flags, signals, on_run_dir);
  }
  return fail(Code::kInternal, "there is no role with the number {}", static_cast<int>(flags.launch.role));
}

}  // namespace dtrain::role
