#include "launch/copy_to_hosts.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>

#include "base/progress_bar.h"
#include "launch/copy_progress.h"
#include "launch/job_record.h"
#include "proc/lines.h"
#include "proc/run.h"

namespace dtrain::launch {
namespace {

constexpr double kMiB = 1 << 20;

// One stage of the copying: a command for each host.
struct Step {
  std::string what;     // what the step does, as shown with the progress
  std::string failure;  // the error's text, with placeholders for the host and the tool's message
  // The number of bytes to copy to each host, for the progress; empty if the command does not print how many it has
  // copied.
  std::vector<std::optional<int64_t>> bytes = {};
};

// Counts the progress of a step, in bytes if the commands print them and otherwise in hosts.
class StepProgress {
 public:
  StepProgress(const Step& step, size_t hosts, const ShowLive& show)
      : bytes_(step.bytes),
        copied_(step.bytes.size(), 0),
        hosts_(hosts),
        bar_({step.what, in_bytes() ? "" : "hosts", total()}, show) {
    update();
  }

  // `line`: a line of a command's stdout. False if it does not contain the number of copied bytes.
  bool line(size_t host, const std::string& line) {
    const std::optional<int64_t> copied = in_bytes() ? copied_bytes(line) : std::nullopt;
    if (copied) copied_[host] = std::min(*copied, bytes_[host].value_or(*copied));
    if (copied) update();
    return copied.has_value();
  }
  void end(size_t host) {
    ended_++;
    if (in_bytes()) copied_[host] = bytes_[host].value_or(copied_[host]);
    update();
  }

 private:
  [[nodiscard]] bool in_bytes() const { return !bytes_.empty(); }
  // The amount of work in this step: the bytes to copy or, if bytes are not counted, the hosts. 0 if the number of
  // bytes is unknown for any host.
  [[nodiscard]] int64_t total() const {
    if (!in_bytes()) return static_cast<int64_t>(hosts_);
    int64_t sum = 0;
    for (const std::optional<int64_t>& bytes : bytes_) {
      if (!bytes) return 0;
      sum += *bytes;
    }
    return sum;
  }
  void update() {
    if (!in_bytes()) return bar_.show(static_cast<int64_t>(ended_));
    bar_.show(std::accumulate(copied_.begin(), copied_.end(), int64_t{0}),
              fmt::format("{} of {} hosts", ended_, hosts_));
  }

  std::vector<std::optional<int64_t>> bytes_;
  std::vector<int64_t> copied_;
  size_t hosts_, ended_ = 0;
  ProgressBar bar_;
};

struct Target {
  const OtherHost* host;
  CopyState state = {};
  bool by_rsync = false;
};

// The reason why a copy failed: what it printed, or otherwise how it ended.
std::string reason_of(const proc::Finished& copy) {
  return copy.errors.empty() ? "it " + proc::how_it_ended(copy.status) : proc::first_words(copy.errors);
}

class Copier {
 public:
  Copier(const Job& job, Screen& screen, proc::SignalQueue& signals) : job_(job), screen_(screen), signals_(signals) {
    for (const OtherHost& other : job.other_hosts) {
      if (other.copy) targets_.push_back({&other});
    }
  }

  Result<> run() {
    if (targets_.empty()) return {};
    screen_.line(fmt::format("dtrain: packing this program for {} hosts", targets_.size()));
    DT_TRY(const package::StagedPackage package, job_.package(signals_), "packing this program for --sync-dst-dir");
    DT_TRY_VOID(ask(package.id()));
    DT_TRY_VOID(send_program(package));
    return send_files();
  }

 private:
  Result<> ask(const std::string& id) {
    std::vector<std::vector<std::string>> commands;
    for (const Target& target : targets_) commands.push_back(ask_command(*target.host->copy, id));
    DT_TRY(const std::vector<proc::Finished> answers,
           run_for(targets_, commands, {"asking the hosts", "preparing the copy to {} failed: {}"}));
    for (size_t i = 0; i < targets_.size(); i++) {
      targets_[i].state = parse_copy_state(answers[i].output);
      const std::string& architecture = targets_[i].state.architecture;
      if (architecture == "x86_64") continue;
      return fail(Code::kStartup, "--sync-dst-dir: this program is for x86_64, but the architecture of {} is {}",
                  targets_[i].host->name, architecture.empty() ? "unknown" : architecture);
    }
    return {};
  }

  Result<> send_program(const package::StagedPackage& package) {
    std::vector<Target> without;
    for (const Target& target : targets_) {
      if (!target.state.has_program) without.push_back(target);
    }
    if (without.empty()) return {};
    const std::string archive = package.path("program.tar.gz");
    DT_TRY_VOID(package.write_archive(archive, signals_));
    const auto size = static_cast<int64_t>(std::filesystem::file_size(archive));
    screen_.line(fmt::format("dtrain: copying this program, {:.0f} MiB, to {} hosts", static_cast<double>(size) / kMiB,
                             without.size()));
    std::vector<std::vector<std::string>> commands;
    commands.reserve(without.size());
    for (const Target& target : without) {
      commands.push_back(program_command(*target.host->copy, package.id(), archive));
    }
    DT_TRY_VOID(run_for(without, commands,
                        {.what = "copying this program",
                         .failure = "copying this program to {} failed: {}",
                         .bytes = std::vector(without.size(), std::optional(size))}));
    return {};
  }

  // The state of rsync on this host.
  struct Rsync {
    bool is_here = false;
    bool prints_bytes = false;
  };

  Result<> send_files() {
    DT_TRY(const Rsync rsync, find_rsync());
    const std::string here = this_directory();
    std::vector<Target> others;
    std::vector<std::vector<std::string>> commands;
    std::vector<std::string> by_tar;
    for (const Target& target : targets_) {
      // The host shares the directory, so there is nothing to do.
      if (!here.empty() && target.state.directory == here) continue;
      const bool by_rsync = rsync.is_here && target.state.has_rsync;
      others.push_back(target);
      others.back().by_rsync = by_rsync;
      const HostCopy& copy = *target.host->copy;
      commands.push_back(by_rsync ? rsync_command(copy, rsync.prints_bytes) : tar_command(copy));
      if (!by_rsync) by_tar.push_back(target.host->name);
    }
    if (others.empty()) return {};
    screen_.line(fmt::format("dtrain: copying the current directory to {} hosts", others.size()));
    if (!by_tar.empty()) {
      const std::string where =
          rsync.is_here ? fmt::format("{} of them, such as {}, have", by_tar.size(), by_tar.front()) : "this host has";
      screen_.line(fmt::format("dtrain: {} no rsync, so all files are sent, not only files that have changed", where));
    }
    Step step{"copying the current directory", "copying the current directory to {} failed: {}"};
    if (rsync.prints_bytes || by_tar.size() == others.size()) {
      DT_TRY(step.bytes, sizes(others));
    }
    DT_TRY_VOID(run_for(others, commands, step));
    return {};
  }

  // The number of bytes to copy to each host. tar sends the same bytes to all hosts, so its size is determined only
  // once.
  Result<std::vector<std::optional<int64_t>>> sizes(const std::vector<Target>& targets) {
    std::vector<std::vector<std::string>> commands;
    std::vector<size_t> command_of;
    std::optional<size_t> tar;
    for (const Target& target : targets) {
      const bool asks = target.by_rsync || !tar;
      command_of.push_back(asks ? commands.size() : *tar);
      if (!asks) continue;
      if (!target.by_rsync) tar = commands.size();
      const HostCopy& copy = *target.host->copy;
      commands.push_back(target.by_rsync ? rsync_size_command(copy) : tar_size_command(copy));
    }
    StepProgress progress({"comparing the current directory", ""}, commands.size(), live());
    const auto goes_on = [&](size_t i, const proc::Finished&) {
      progress.end(i);
      return true;  // the copy will report the failure
    };
    DT_TRY(const std::vector<proc::Finished> answers, run_commands(commands, {.goes_on = goes_on}));
    std::vector<std::optional<int64_t>> sizes;
    sizes.reserve(targets.size());
    for (const size_t command : command_of) sizes.push_back(bytes_to_copy(answers[command]));
    return sizes;
  }

  Result<Rsync> find_rsync() {
    DT_TRY(const proc::Finished present, proc::run({.arguments = {"sh", "-c", "command -v rsync"}}, signals_));
    if (!present.ended_with(0)) return Rsync{};
    DT_TRY(const proc::Finished version,
           proc::run({.arguments = {"rsync", "--info=progress2", "--version"}}, signals_));
    return Rsync{.is_here = true, .prints_bytes = version.ended_with(0)};
  }

  // Runs one command for each target.
  Result<std::vector<proc::Finished>> run_for(const std::vector<Target>& targets,
                                              const std::vector<std::vector<std::string>>& commands, const Step& step) {
    StepProgress progress(step, targets.size(), live());
    std::optional<size_t> failed;
    const auto goes_on = [&](size_t i, const proc::Finished& copy) {
      progress.end(i);
      if (!failed && !copy.ended_with(0)) failed = i;
      return !failed;
    };
    const auto takes_line = [&](size_t i, const std::string& line) { return progress.line(i, line); };
    DT_TRY(std::vector<proc::Finished> ended, run_commands(commands, {.goes_on = goes_on, .takes_line = takes_line}));
    if (!failed) return ended;
    return fail(Code::kStartup, "--sync-dst-dir: {}",
                fmt::format(fmt::runtime(step.failure), targets[*failed].host->name, reason_of(ended[*failed])));
  }

  // Runs the commands and records them as processes of the job, so that `dtrain kill` ends them too.
  Result<std::vector<proc::Finished>> run_commands(const std::vector<std::vector<std::string>>& commands,
                                                   proc::RunAllOptions options) {
    DT_TRY(JobRecord record, JobRecord::create(job_.record_root, job_.name, job_.limits.kill_after));
    options.children = {.kill_after = job_.limits.kill_after,
                        .stdout_ends = proc::LineEnds::kReturnToo,
                        .leftover_file = record.file(),
                        .leftover_directory = record.directory()};
    options.on_start = [&](size_t i, pid_t pid) { return record.add("copy", static_cast<int>(i), pid); };
    std::vector<proc::Program> programs;
    programs.reserve(commands.size());
    for (const std::vector<std::string>& arguments : commands) programs.push_back({.arguments = arguments});
    DT_TRY(std::vector<proc::Finished> ended, proc::run_all(programs, options, signals_), "copying to the hosts");
    return ended;
  }

  [[nodiscard]] ShowLive live() const {
    return [this](const Live& live) { screen_.live(live); };
  }

  const Job& job_;
  Screen& screen_;
  proc::SignalQueue& signals_;
  std::vector<Target> targets_;
};

}  // namespace

Result<> copy_to_hosts(const Job& job, Screen& screen, proc::SignalQueue& signals) {
  return Copier(job, screen, signals).run();
}

}  // namespace dtrain::launch
