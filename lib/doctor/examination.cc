#include "doctor/examination.h"

#include <fmt/ranges.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "doctor/gather.h"
#include "doctor/host_side.h"
#include "doctor/peers.h"
#include "job/flags/gpu_list.h"
#include "job/process/token.h"
#include "launch/connect_gate.h"
#include "launch/host_runs.h"
#include "launch/hosts.h"
#include "net/endpoint.h"
#include "proc/this_host.h"

namespace dtrain::doctor {
namespace {

namespace fs = std::filesystem;
using launch::Command;
using proc::Finished;

// Time limit for a host to gather its facts (names, data, memory) after the agents' greeting.
constexpr auto kFactsTime = std::chrono::seconds(30);
constexpr auto kMeasuringTime = std::chrono::seconds(30);
constexpr auto kContactsTime = std::chrono::seconds(25);
constexpr auto kPathTime = std::chrono::seconds(30);

// The value of the last occurrence of a flag in a command line; empty if the flag is not given.
std::string last_value(const std::vector<std::string>& arguments, const std::string& flag) {
  const auto found = std::find(arguments.rbegin(), arguments.rend(), flag);
  return found == arguments.rend() || found == arguments.rbegin() ? "" : *std::prev(found);
}

std::optional<std::string> rest_of_line(const Finished& run, std::string_view beginning) {
  for (const std::string& line : run.output) {
    if (line.starts_with(beginning)) return line.substr(beginning.size());
  }
  return std::nullopt;
}

// Why a command that was started on a host did not print the expected line.
std::string why_nothing(const launch::HostRuns& runs, size_t host_number, size_t number) {
  if (runs.lost(host_number)) return runs.lost(host_number)->message;
  const Finished& run = runs.run(number);
  const std::string words = run.errors.empty() ? "" : fmt::format(": {}", fmt::join(run.errors, "; "));
  if (!runs.ended(number)) return fmt::format("the examination did not end in time{}", words);
  if (WIFSIGNALED(run.status)) {
    // The code in this text is the one that a shell would report.
    return fmt::format("dtrain on this host ended with code {}{}", 128 + WTERMSIG(run.status), words);
  }
  return fmt::format("dtrain on this host ended with code {}{}", WEXITSTATUS(run.status), words);
}

class Examination {
 public:
  Examination(const ExaminationSetting& setting, launch::HostRuns& runs) : setting_(setting), runs_(runs) {}
  Result<Examined> run();

 private:
  // What is known about one host before the examination. Indexed by Command::host_number.
  struct Part {
    Command command;                     // the command of one of the job's processes on this host
    std::optional<job::GpuList> gpus{};  // the GPUs of all workers on this host; nullopt: as in the command
  };

  Result<> plan();
  void add_process(const Command& command);
  [[nodiscard]] Command host_command(size_t host_number, const std::vector<std::string>& own, bool with_flags) const;
  Result<> gather();
  void blame_address();
  Result<> connect();
  Result<> measure_paths();
  void take_contacts(size_t host_number, size_t number);
  [[nodiscard]] bool listens(size_t host_number) const;
  [[nodiscard]] net::Endpoint endpoint(size_t host_number) const;
  void say(const std::string& text) const {
    if (setting_.progress) setting_.progress(text);
  }

  const ExaminationSetting& setting_;
  launch::HostRuns& runs_;
  std::string key_ = job::make_token();
  std::vector<Part> parts_;
  Examined examined_;
};

Result<Examined> Examination::run() {
  DT_TRY_VOID(plan());
  DT_TRY_VOID(gather());
  blame_address();
  DT_TRY_VOID(connect());
  if (setting_.asked.perf) DT_TRY_VOID(measure_paths());
  return std::move(examined_);
}

// Determines which processes of the job are on each host.
Result<> Examination::plan() {
  const launch::Job& job = setting_.job;
  examined_.asked = setting_.asked;
  examined_.asked.launcher_open_files = launch::descriptors_of(job);
  examined_.hosts.push_back({.name = "this host", .is_launcher = true, .is_here = true});
  for (const launch::OtherHost& other : job.other_hosts) examined_.hosts.push_back({.name = other.name});
  parts_.resize(examined_.hosts.size());
  DT_TRY(const std::string executable, proc::this_executable());
  parts_[0].command = job.scheduler;
  if (job.other_hosts.empty() && !setting_.is_distributed) {
    parts_[0].command = {.arguments = setting_.arguments_here};
    parts_[0].command.arguments.insert(parts_[0].command.arguments.begin(), executable);
    examined_.hosts[0].workers = 1;
    examined_.hosts[0].has_first_worker = true;
    return {};
  }
  const std::string scheduler = setting_.address.empty() ? "127.0.0.1:1" : to_text(net::Endpoint{setting_.address, 1});
  for (const Command& command : job.others(scheduler)) add_process(command);
  return {};
}

void Examination::add_process(const Command& command) {
  HostReport& host = examined_.hosts[command.host_number];
  Part& part = parts_[command.host_number];
  const bool is_worker = command.role == "worker";
  if (host.workers + host.servers == 0 || (is_worker && host.workers == 0)) part.command = command;
  (is_worker ? host.workers : host.servers)++;
  host.has_first_worker = host.has_first_worker || (is_worker && command.rank == 0);
  job::GpuList gpus;
  if (!is_worker || !job::parse_value(last_value(command.arguments, "--gpus"), gpus) || gpus.empty()) return;
  if (!part.gpus) part.gpus.emplace();
  job::add_gpus(gpus.has_numbers() ? gpus : job::GpuList::all(), *part.gpus);
}

// Returns the command that examines a host. `own`: flags of examine-host.
Command Examination::host_command(size_t host_number, const std::vector<std::string>& own, bool with_flags) const {
  const Part& part = parts_[host_number];
  Command command = part.command;
  command.host_number = host_number;
  command.host = examined_.hosts[host_number].name;
  command.arguments = {part.command.arguments.front(), "examine-host"};
  command.arguments.insert(command.arguments.end(), own.begin(), own.end());
  command.environment.push_back(fmt::format("{}={}", kDoctorKey, key_));
  if (!with_flags) return command;
  command.arguments.emplace_back("--");
  command.arguments.insert(command.arguments.end(), std::next(part.command.arguments.begin()),
                           part.command.arguments.end());
  if (part.gpus) command.arguments.insert(command.arguments.end(), {"--gpus", job::format_value(*part.gpus)});
  return command;
}

Result<> Examination::gather() {
  if (parts_.size() > 1) say(fmt::format("asking {} hosts", parts_.size() - 1));
  std::vector<std::string> own = {"--names", fmt::format("{}", fmt::join(setting_.names, ","))};
  if (!setting_.address.empty()) own.insert(own.end(), {"--launcher", setting_.address});
  if (setting_.asked.perf) own.emplace_back("--perf");
  std::vector<size_t> runs;
  for (size_t host_number = 0; host_number < parts_.size(); host_number++) {
    DT_TRY(const size_t run, runs_.start(host_command(host_number, own, true)));
    runs.push_back(run);
  }
  // Connections to the hosts are limited to kAtOnce at the same time, so the hosts may be greeted in several turns.
  const auto turns = static_cast<int64_t>(parts_.size() / launch::ConnectGate::kAtOnce + 1);
  const auto time =
      turns * setting_.job.limits.greet + kFactsTime + (setting_.asked.perf ? kMeasuringTime : std::chrono::seconds(0));
  DT_TRY_VOID(runs_.wait(runs, launch::Clock::now() + time,
                         [](const Finished& run) { return rest_of_line(run, kFactsLine).has_value(); }));
  for (size_t host_number = 0; host_number < parts_.size(); host_number++) {
    HostReport& host = examined_.hosts[host_number];
    const std::optional<std::string> line = rest_of_line(runs_.run(runs[host_number]), kFactsLine);
    const Result<Facts> facts =
        line ? parse_facts(*line) : fail(Code::kStartup, "{}", why_nothing(runs_, host_number, runs[host_number]));
    host.shares_run_directory = runs_.shares_run_dir(host_number);
    if (!facts) {
      host.error = facts.error().message;
      continue;
    }
    host.facts = *facts;
    host.is_here = host.is_here || net::is_this_host(host.name);
    host.gpus = std::max<int64_t>(std::ssize(facts->gpus.found), 0);
  }
  return {};
}

// If the launcher's address is unknown, records that as a fact of the launcher's host, because its scheduler could not
// be started.
void Examination::blame_address() {
  std::optional<Facts>& here = examined_.hosts[0].facts;
  if (setting_.address_error.empty() || !here) return;
  here->address.clear();
  here->listen_error.clear();
  here->address_error = setting_.address_error;
}

bool Examination::listens(size_t host_number) const {
  const std::optional<Facts>& facts = examined_.hosts[host_number].facts;
  return facts && facts->port != 0;
}

net::Endpoint Examination::endpoint(size_t host_number) const {
  const Facts& facts = *examined_.hosts[host_number].facts;
  return {facts.address, static_cast<uint16_t>(facts.port)};
}

// Lets each host connect to every other one and to the launcher's host, where the scheduler would listen. The
// launcher's host itself does not connect to any host, because a launcher does not do that either.
Result<> Examination::connect() {
  std::vector<size_t> runs(parts_.size()), started;
  for (size_t from = 1; from < parts_.size(); from++) {
    std::vector<Target> targets;
    for (size_t to = 0; to < parts_.size(); to++) {
      if (to != from && listens(to)) targets.push_back({static_cast<int64_t>(to), endpoint(to)});
    }
    if (!examined_.hosts[from].facts || targets.empty()) continue;
    DT_TRY(runs[from], runs_.start(host_command(from, {"--contact", to_text(targets)}, false)));
    started.push_back(runs[from]);
  }
  if (started.empty()) return {};
  say("connecting the hosts to each other");
  DT_TRY_VOID(runs_.wait(started, launch::Clock::now() + kContactsTime));
  for (size_t from = 1; from < parts_.size(); from++) {
    if (std::find(started.begin(), started.end(), runs[from]) != started.end()) take_contacts(from, runs[from]);
  }
  return {};
}

void Examination::take_contacts(size_t host_number, size_t number) {
  HostReport& host = examined_.hosts[host_number];
  for (const std::string& line : runs_.run(number).output) {
    if (!line.starts_with(kContactLine)) continue;
    const Result<Contact> contact = parse_contact(std::string_view(line).substr(kContactLine.size()));
    if (contact && contact->host >= 0 && contact->host < std::ssize(examined_.hosts)) host.contacts.push_back(*contact);
  }
  if (!rest_of_line(runs_.run(number), kContactsEnd)) {
    host.contact_error = "the host did not connect to the other hosts: " + why_nothing(runs_, host_number, number);
  }
}

Result<> Examination::measure_paths() {
  std::vector<size_t> listening;
  for (size_t host_number = 1; host_number < parts_.size(); host_number++) {
    if (listens(host_number)) listening.push_back(host_number);
  }
  const auto rounds = rounds_of(listening.size());
  for (size_t round = 0; round < rounds.size(); round++) {
    say(fmt::format("measuring paths, round {} of {}", round + 1, rounds.size()));
    std::vector<size_t> runs;
    for (const auto& [a, b] : rounds[round]) {
      const size_t from = listening[a], to = listening[b];
      DT_TRY(const size_t run, runs_.start(host_command(from, {"--speed", to_text(endpoint(to))}, false)));
      runs.push_back(run);
      examined_.pairs.push_back({from, to, {}});
    }
    DT_TRY_VOID(runs_.wait(runs, launch::Clock::now() + kPathTime));
    for (size_t i = 0; i < runs.size(); i++) {
      PairSpeed& pair = examined_.pairs[examined_.pairs.size() - runs.size() + i];
      const std::optional<std::string> line = rest_of_line(runs_.run(runs[i]), kSpeedLine);
      Result<PathSpeed> speed =
          line ? parse_path_speed(*line) : fail(Code::kStartup, "{}", why_nothing(runs_, pair.from, runs[i]));
      pair.speed = speed ? *speed : PathSpeed{.error = speed.error().message};
    }
  }
  return {};
}

// Creates a marker file where the run directory would be, or in its nearest existing parent directory. The hosts look
// for this file, to find out whether they share the directory.
std::optional<launch::RunDirMark> make_mark(launch::Job job) {
  if (job.other_hosts.empty()) return std::nullopt;
  const bool absolute = fs::path(job.run_dir).is_absolute();
  job.run_dir = nearest_existing(job.run_dir);
  std::error_code error;
  if (!absolute) job.run_dir = fs::relative(job.run_dir, error).string();
  Result<launch::RunDirMark> mark = launch::RunDirMark::create(job);
  if (!mark) return std::nullopt;
  return std::move(*mark);
}

}  // namespace

Result<Examined> examine(const ExaminationSetting& setting) {
  const std::optional<launch::RunDirMark> mark = make_mark(setting.job);
  DT_TRY(const auto runs, launch::HostRuns::create(setting.job, mark ? mark->path() : ""));
  return Examination(setting, *runs).run();
}

// The circle method: one host keeps its place, and the others move on by one place in each round. If the number of
// hosts is odd, one host pauses in each round.
std::vector<std::vector<std::pair<size_t, size_t>>> rounds_of(size_t hosts) {
  std::vector<std::vector<std::pair<size_t, size_t>>> rounds;
  const size_t places = hosts + hosts % 2;
  if (hosts < 2) return rounds;
  for (size_t round = 0; round + 1 < places; round++) {
    std::vector<std::pair<size_t, size_t>>& pairs = rounds.emplace_back();
    const auto at = [&](size_t place) { return place == 0 ? 0 : (place - 1 + round) % (places - 1) + 1; };
    for (size_t i = 0; i < places / 2; i++) {
      const size_t a = at(i), b = at(places - 1 - i);
      if (a < hosts && b < hosts) pairs.emplace_back(std::min(a, b), std::max(a, b));
    }
  }
  return rounds;
}

}  // namespace dtrain::doctor
