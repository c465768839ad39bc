#include "launch/copy_to_hosts.h"

#include <sys/wait.h>

#include <filesystem>
#include <optional>

#include "base/progress_bar.h"
#include "launch/output.h"
#include "launch/package/tool.h"
#include "launch/run_all.h"

namespace dtrain::launch {
namespace {

constexpr double kMiB = 1 << 20;

struct Target {
  const Machine* machine;
  CopyState state = {};
};

// Why a copy failed: what it printed, or else how it ended.
std::string complaint(const Finished& copy) {
  if (!copy.errors.empty()) return first_words(copy.errors);
  if (WIFSIGNALED(copy.status)) return fmt::format("it was killed by signal {}", WTERMSIG(copy.status));
  return fmt::format("it ended with code {}", WEXITSTATUS(copy.status));
}

class Copier {
 public:
  Copier(const Job& job, Screen& screen, SignalQueue& signals) : job_(job), screen_(screen), signals_(signals) {
    for (const Machine& machine : job.machines) {
      if (machine.copy) targets_.push_back({&machine});
    }
  }

  Result<> run() {
    if (targets_.empty()) return {};
    screen_.line(fmt::format("dtrain: packing this program for {} hosts", targets_.size()));
    DT_TRY(const StagedPackage package, job_.package(signals_), "packing this program for --sync-dst-dir");
    DT_TRY_VOID(ask(package.id()));
    DT_TRY_VOID(send_program(package));
    return send_files();
  }

 private:
  Result<> ask(const std::string& id) {
    std::vector<std::vector<std::string>> commands;
    for (const Target& target : targets_) commands.push_back(ask_command(*target.machine->copy, id));
    DT_TRY(const std::vector<Finished> answers,
           run_for(targets_, commands, "asking the hosts", "preparing the copy to {} failed: {}"));
    for (size_t i = 0; i < targets_.size(); i++) {
      targets_[i].state = parse_copy_state(answers[i].output);
      const std::string& machine = targets_[i].state.machine;
      if (machine == "x86_64") continue;
      return fail(Code::kStartup, "--sync-dst-dir: this program is for x86_64, but {} is {}", targets_[i].machine->name,
                  machine.empty() ? "unknown" : machine);
    }
    return {};
  }

  Result<> send_program(const StagedPackage& package) {
    std::vector<Target> without;
    for (const Target& target : targets_) {
      if (!target.state.has_program) without.push_back(target);
    }
    if (without.empty()) return {};
    const std::string archive = package.path("program.tar.gz");
    DT_TRY_VOID(package.write_archive(archive, signals_));
    screen_.line(fmt::format("dtrain: copying this program, {:.0f} MiB, to {} hosts",
                             static_cast<double>(std::filesystem::file_size(archive)) / kMiB, without.size()));
    std::vector<std::vector<std::string>> commands;
    commands.reserve(without.size());
    for (const Target& target : without) {
      commands.push_back(program_command(*target.machine->copy, package.id(), archive));
    }
    DT_TRY_VOID(run_for(without, commands, "copying this program", "copying this program to {} failed: {}"));
    return {};
  }

  Result<> send_files() {
    DT_TRY(const bool rsync_here, has_rsync());
    const std::string here = this_directory();
    std::vector<Target> others;
    std::vector<std::vector<std::string>> commands;
    std::vector<std::string> by_tar;
    for (const Target& target : targets_) {
      if (!here.empty() && target.state.directory == here) continue;  // the host shares it, so there is nothing to do
      const bool by_rsync = rsync_here && target.state.has_rsync;
      others.push_back(target);
      commands.push_back(by_rsync ? target.machine->copy->rsync : tar_command(*target.machine->copy));
      if (!by_rsync) by_tar.push_back(target.machine->name);
    }
    if (others.empty()) return {};
    screen_.line(fmt::format("dtrain: copying the current directory to {} hosts", others.size()));
    if (!by_tar.empty()) {
      const std::string where =
          rsync_here ? fmt::format("{} of them, such as {}, have", by_tar.size(), by_tar.front()) : "this machine has";
      screen_.line(fmt::format("dtrain: {} no rsync, so all files are sent, not only those that changed", where));
    }
    DT_TRY_VOID(
        run_for(others, commands, "copying the current directory", "copying the current directory to {} failed: {}"));
    return {};
  }

  Result<bool> has_rsync() {
    DT_TRY(const Finished answer, run_tool({"sh", "-c", "command -v rsync"}, signals_));
    return answer.ended_with(0);
  }

  // Runs one command for each target. `what`: its name, for the progress. `failure`: the error's text, with places for the host and the words of the tool.
  Result<std::vector<Finished>> run_for(const std::vector<Target>& targets,
                                        const std::vector<std::vector<std::string>>& arguments, const std::string& what,
                                        const std::string& failure) {
    std::vector<Command> commands;
    commands.reserve(arguments.size());
    for (const std::vector<std::string>& words : arguments) {
      commands.push_back({.role = "copy", .rank = static_cast<int>(commands.size()), .arguments = words});
    }
    ProgressBar bar({what, "hosts", static_cast<int64_t>(targets.size())},
                    [this](const Live& live) { screen_.live(live); });
    bar.show(0);
    int64_t done = 0;
    std::optional<size_t> failed;
    const auto goes_on = [&](size_t i, const Finished& copy) {
      bar.show(++done);
      if (!failed && !copy.ended_with(0)) failed = i;
      return !failed;
    };
    const RunAllOptions options{.host = {job_.name, job_.record_root, job_.limits.kill_after}, .goes_on = goes_on};
    DT_TRY(std::vector<Finished> ended, run_all(commands, options, signals_), "copying to the hosts");
    if (!failed) return ended;
    return fail(Code::kStartup, "--sync-dst-dir: {}",
                fmt::format(fmt::runtime(failure), targets[*failed].machine->name, complaint(ended[*failed])));
  }

  const Job& job_;
  Screen& screen_;
  SignalQueue& signals_;
  std::vector<Target> targets_;
};

}  // namespace

Result<> copy_to_hosts(const Job& job, Screen& screen, SignalQueue& signals) {
  return Copier(job, screen, signals).run();
}

}  // namespace dtrain::launch
