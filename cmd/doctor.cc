// `dtrain doctor`: examines the hosts of a job before it runs.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/console.h"
#include "base/file.h"
#include "cluster/cluster.h"
#include "doctor/examination.h"
#include "doctor/gather.h"
#include "doctor/report.h"
#include "job/process/exit_code.h"
#include "notes.h"
#include "role/process/addresses.h"
#include "role/process/run_dir.h"
#include "start_job.h"
#include "tool.h"
#include "train/disk_need.h"

namespace dtrain::cmd {
namespace {

struct DoctorOptions {
  bool perf = false, json = false;
};

job::FlagTable<DoctorOptions> doctor_flags() {
  return {{
      {.name = "perf",
       .help = "also measure bandwidth and latency between the hosts, their disks and their decoders",
       .bind = DT_FIELD(DoctorOptions, perf)},
      {.name = "json", .help = "print one line of JSON instead of the table", .bind = DT_FIELD(DoctorOptions, json)},
  }};
}

constexpr const char* kDoctorUsage =
    "dtrain doctor [-H FILE] [-i NAME] [--perf] [--json] [JOB-FLAGS]\n"
    "Examines this host and the hosts of a job, and prints what is wrong and what\n"
    "to do about it. JOB-FLAGS are the flags of training (dtrain help train): with\n"
    "them it also examines the data, the memory and the GPUs that the job needs.\n"
    "Nothing is trained. Exit code: 0 if no check failed, 1 if a check failed, 3 if\n"
    "a host could not be examined at all. FLAGS are:";

Result<std::vector<job::SshAddress>> hosts_of_file(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) return fail(Code::kUsage, "-H: {}", text.error().message);
  DT_TRY(const job::HostFile file, job::parse_host_file(*text, path));
  return job::ssh_addresses(file);
}

// The value of the last occurrence of a training flag on the command line; empty if the flag is not given.
Result<std::string> given_value(const std::vector<std::string>& arguments, const std::string& flag) {
  DT_TRY(const size_t row, job::training_flags().find(flag));
  DT_TRY(const job::CommandLine line, job::read_command_line(job::training_flags().spellings(), arguments));
  std::string value;
  for (const job::GivenFlag& given : line.given) {
    if (given.flag == row) value = given.value;
  }
  return value;
}

// What is examined: a job or, if -n is not given, all hosts of the host file, as if each of them ran a worker.
struct Subject {
  std::vector<std::string> arguments;  // flags of the job
  std::vector<job::SshAddress> all_hosts = {};
  bool counts_hosts = false;  // whether the number of hosts is used in place of -n, which was not given
  job::Flags flags = {};
};

Result<Subject> subject_of(const Call& call, std::vector<std::string> arguments) {
  Subject subject{.arguments = std::move(arguments)};
  DT_TRY(const std::string file, given_value(subject.arguments, "--hostfile"));
  DT_TRY(const std::string workers, given_value(subject.arguments, "--num-workers"));
  if (!file.empty() && workers.empty()) {
    DT_TRY(subject.all_hosts, hosts_of_file(file));
    subject.arguments.insert(subject.arguments.end(), {"-n", std::to_string(subject.all_hosts.size())});
    subject.counts_hosts = true;
  }
  // --interface only has an effect in a job with several processes, so the job becomes such a job.
  DT_TRY(const std::string interface, given_value(subject.arguments, "--interface"));
  if (file.empty() && workers.empty() && !interface.empty()) {
    subject.arguments.insert(subject.arguments.end(), {"-n", "1"});
    subject.counts_hosts = true;
  }
  // Without data flags, synthetic data are assumed, so that everything else can be examined.
  bool names_data = false;
  for (const char* flag : {"--data-dir", "--data-train", "--benchmark", "--config", "--preset", "--resume"}) {
    DT_TRY(const std::string value, given_value(subject.arguments, flag));
    names_data = names_data || !value.empty();
  }
  if (!names_data) subject.arguments.insert(subject.arguments.end(), {"--benchmark", "1"});
  DT_TRY(const job::Parsed parsed, job::parse_flags(subject.arguments, call.environment));
  for (const std::string& note : parsed.notes) show_note(note);
  subject.flags = parsed.flags;
  return subject;
}

Result<> check(const Subject& subject) {
  const job::LaunchFlags& launch = subject.flags.launch;
  if (launch.role != job::Role::kNone) {
    return fail(Code::kUsage, "--role: dtrain doctor examines a whole job: give -n and -H instead");
  }
  if (launch.dry_run) {
    return fail(Code::kUsage, "--dry-run: dtrain doctor starts no process of the job in any case: leave it out");
  }
  if (launch.on_other_hosts() && launch.hostfile.empty() && !subject.flags.given("num-workers")) {
    return fail(Code::kUsage, "--launcher {}: the number of workers is missing (-n)", launch.launcher);
  }
  return {};
}

job::HostAssignment one_worker_each(const Subject& subject) {
  job::HostAssignment assignment;
  for (const job::SshAddress& host : subject.all_hosts) {
    assignment.workers.push_back({.host = host.host, .gpus = {}, .ssh = host});
  }
  for (int64_t i = 0; i < subject.flags.job.num_servers; i++) {
    assignment.servers.push_back(assignment.workers[static_cast<size_t>(i) % assignment.workers.size()]);
  }
  return assignment;
}

Result<Places> places_of(const Call& call, const Subject& subject) {
  const bool all = !subject.all_hosts.empty() && subject.flags.launch.on_other_hosts();
  if (!all) return places_of(call, subject.flags, Missing());
  Places places{.hosts = one_worker_each(subject)};
  if (!cluster::is_cluster(subject.flags.launch.launcher)) return places;
  DT_TRY(cluster::Cluster cluster, cluster::find_cluster(subject.flags, call.environment, places.hosts));
  return Places{std::move(cluster.assignment), std::move(cluster.starter)};
}

bool is_address(const std::string& host) {
  return host.find(':') != std::string::npos || host.find_first_not_of("0123456789.") == std::string::npos;
}

// The address at which the other hosts can reach this host, and the names of the hosts.
struct Meeting {
  std::string address = {};  // the address; empty: unknown, or there are no other hosts
  std::string address_error = {};
  std::vector<std::string> names = {};
};

// If a name cannot be resolved, it is left out here; the check of names reports it.
Result<Meeting> meeting_of(const job::Flags& flags, const Places& places) {
  Meeting meeting;
  if (!flags.launch.on_other_hosts() || !places.hosts) return meeting;
  std::vector<std::string> reachable;
  for (const job::SshAddress& host : launch::distinct_hosts(*places.hosts)) {
    (is_address(host.host) ? reachable : meeting.names).push_back(host.host);
  }
  for (const doctor::ResolvedName& name : doctor::resolve_names(meeting.names)) {
    if (name.error.empty()) reachable.push_back(name.name);
  }
  const Result<std::string> address = role::launcher_address(flags.launch, reachable);
  if (address) {
    meeting.address = *address;
  } else {
    meeting.address_error = address.error().message;
  }
  // Agents that were started by a cluster's tool must call back to this address. With ssh, hosts can be examined
  // without it.
  if (!address && places.starter) return tl::unexpected(address.error());
  return meeting;
}

doctor::Asked asked_for(const Subject& subject, const Places& places, const DoctorOptions& options) {
  const job::Flags& flags = subject.flags;
  doctor::Asked asked;
  asked.perf = options.perf;
  if (flags.launch.on_other_hosts()) asked.starter = places.starter ? places.starter->tool : "ssh";
  const bool given_count = flags.given("num-workers") && !subject.counts_hosts;
  asked.job = given_count || flags.given("network") || flags.given("data-dir") || flags.given("data-train") ||
              flags.given("gpus") || flags.given("run-dir");
  asked.resumes = flags.given("resume") || flags.given("retrain");
  asked.names_matter = places.starter.has_value();
  asked.workers = flags.job.num_workers;
  asked.servers = flags.job.num_servers;
  // The best checkpoint is counted as a complete one, although it does not contain the optimizer's state.
  asked.checkpoints =
      1 + train::checkpoints_to_come(
              {.save_period = flags.loop.save_period, .num_epochs = flags.job.num_epochs, .keep = flags.loop.keep});
  asked.allow_mixed_builds = flags.launch.allow_mixed_builds;
  return asked;
}

Result<launch::Job> job_of(const Call& call, const Subject& subject, Places places, const Meeting& meeting) {
  // Time limit for an ssh connection; ssh gives up by itself after 10 s.
  constexpr auto kSshTime = std::chrono::seconds(30);
  constexpr auto kGroupTime = std::chrono::seconds(90);
  const bool by_group = places.starter.has_value();
  job::Flags flags = subject.flags;
  if (!meeting.address.empty()) flags.launch.advertise = meeting.address;
  std::vector<std::string> missing;
  DT_TRY(JobToStart job, job_to_start(call, {.arguments = subject.arguments,
                                             .flags = flags,
                                             .places = std::move(places),
                                             .run_dir = role::choose_run_dir(flags, std::nullopt),
                                             .missing = &missing}));
  job.processes.name = "doctor" + job.processes.name.substr(job.processes.name.rfind('-'));
  // Hosts with another build must not be refused, because the check of builds reports them.
  job.processes.allow_mixed_builds = true;
  job.processes.limits.greet = by_group ? kGroupTime : kSshTime;
  job.processes.limits.stop = job.processes.limits.kill_after;
  return std::move(job.processes);
}

size_t columns_of_terminal() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

Result<int> examine(const Call& call, const Subject& subject, const DoctorOptions& options) {
  DT_TRY(Places places, places_of(call, subject));
  DT_TRY(const Meeting meeting, meeting_of(subject.flags, places));
  doctor::ExaminationSetting setting{.job = {},
                                     .arguments_here = subject.arguments,
                                     .is_distributed = subject.flags.distributed(),
                                     .asked = asked_for(subject, places, options),
                                     .address = meeting.address,
                                     .address_error = meeting.address_error,
                                     .names = meeting.names};
  DT_TRY(setting.job, job_of(call, subject, std::move(places), meeting));
  Console console = Console::to_stderr(subject.flags.launch.terminal);
  const bool shows_progress = ::isatty(STDERR_FILENO) != 0;
  if (shows_progress) {
    setting.progress = [&console](const std::string& text) {
      console.live("doctor: " + text, std::chrono::steady_clock::now());
    };
  }
  DT_TRY(const doctor::Examined examined, doctor::examine(setting));
  console.finish();
  const std::vector<doctor::Row> rows = doctor::check_all(examined);
  std::fputs(
      (options.json ? doctor::json_line(examined, rows) : doctor::table(examined, rows, columns_of_terminal())).c_str(),
      stdout);
  return doctor::exit_code(examined, rows);
}

}  // namespace

Result<int> doctor(const Call& call) {
  const job::FlagTable<DoctorOptions> table = doctor_flags();
  if (job::asks_for_help(call.arguments)) {
    show_help(call, kDoctorUsage, table.flag_helps());
    return job::kExitOk;
  }
  DT_TRY(MixedLine<DoctorOptions> line, read_mixed_line(table, call.arguments));
  DT_TRY(const Subject subject, subject_of(call, std::move(line.job)));
  DT_TRY_VOID(check(subject));
  return examine(call, subject, line.options);
}

}  // namespace dtrain::cmd
