// `dtrain examine-host`: an internal command, which `dtrain doctor` starts on every host that it examines.
#include <algorithm>

#include "doctor/host_side.h"
#include "job/process/exit_code.h"
#include "tool.h"

namespace dtrain::cmd {
namespace {

struct ExamineHostOptions {
  doctor::HostSide side;
  std::string contact, speed;
};

job::FlagTable<ExamineHostOptions> examine_host_flags() {
  return {{
      {.name = "names",
       .value = "NAME,...",
       .help = "names of hosts to resolve",
       .bind = DT_FIELD(ExamineHostOptions, side.names, "none")},
      {.name = "launcher",
       .value = "HOST",
       .help = "address of the host that runs dtrain doctor",
       .bind = DT_FIELD(ExamineHostOptions, side.launcher, "none")},
      {.name = "perf", .help = "measure the disk and the decoders", .bind = DT_FIELD(ExamineHostOptions, side.perf)},
      {.name = "contact",
       .value = "NUMBER=HOST:PORT,...",
       .help = "connect to these hosts, instead of reporting facts",
       .bind = DT_FIELD(ExamineHostOptions, contact, "none")},
      {.name = "speed",
       .value = "HOST:PORT",
       .help = "measure the network path to this host, instead of reporting facts",
       .bind = DT_FIELD(ExamineHostOptions, speed, "none")},
  }};
}

Result<job::Flags> flags_of_job(const std::vector<std::string>& arguments, const job::Environment& environment) {
  DT_TRY(job::Parsed parsed, job::parse_flags(arguments, environment));
  return std::move(parsed.flags);
}

}  // namespace

Result<int> examine_host(const Call& call) {
  // The flags of the job's process follow after "--".
  const auto separator = std::find(call.arguments.begin(), call.arguments.end(), "--");
  Call own = call;
  own.arguments.assign(call.arguments.begin(), separator);
  const std::string usage =
      "dtrain examine-host [FLAGS] [-- JOB-FLAGS]\nRuns on the hosts that dtrain doctor examines.";
  DT_TRY(ToolLine<ExamineHostOptions> line, read_tool_line(examine_host_flags(), usage, own, 0, 0));
  if (line.help) return job::kExitOk;
  doctor::HostSide& side = line.options.side;
  side.key = call.environment(doctor::kDoctorKey).value_or("");
  if (side.key.empty()) {
    return fail(Code::kUsage, "dtrain examine-host is started by dtrain doctor: {} is not set", doctor::kDoctorKey);
  }
  if (!line.options.contact.empty()) {
    DT_TRY_VOID(doctor::tell_contacts(side, line.options.contact));
  } else if (!line.options.speed.empty()) {
    DT_TRY_VOID(doctor::tell_speed(side, line.options.speed));
  } else {
    std::vector<std::string> job;
    if (separator != call.arguments.end()) job.assign(std::next(separator), call.arguments.end());
    DT_TRY_VOID(doctor::tell_facts(side, flags_of_job(job, call.environment)));
  }
  return job::kExitOk;
}

}  // namespace dtrain::cmd
