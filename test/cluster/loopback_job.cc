#include "cluster/loopback_job.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "job/process/progress.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "tensor/ndarray_file.h"

namespace dtrain::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kStartSeconds = 30;
constexpr int kPauseMs = 5;

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

int64_t step_in(const std::string& output) {
  const size_t at = output.rfind("\nlive ");
  if (at == std::string::npos) return -1;
  const std::string line = output.substr(at + 1, output.find('\n', at + 1) - at - 1);
  const auto progress = job::parse_progress(line);
  return progress ? progress->step : -1;
}

}  // namespace

std::string dtrain_program() {
  const char* path = std::getenv("DTRAIN_PROGRAM");
  if (path == nullptr) throw std::runtime_error("DTRAIN_PROGRAM does not name the program; run this with meson test");
  return path;
}

std::string address_in(const std::string& output) {
  constexpr std::string_view kBeginning = "dtrain scheduler ";
  const size_t at = output.find(kBeginning);
  if (at == std::string::npos) return "";
  return output.substr(at + kBeginning.size(), output.find('\n', at) - at - kBeginning.size());
}

uint16_t port_of(const std::string& address) {
  return static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

void make_images(const std::string& directory) {
  const Ended end = run({dtrain_program(), "data", "synth", "--out", directory, "--count", "400", "--size", "28"},
                        {.deadline_s = 60, .directory = {}, .environment = {}});
  if (end.code != 0) throw std::runtime_error("dtrain data synth failed:\n" + end.output);
}

void await_output(Process& process, const std::string& text, double seconds) {
  const bool appeared = process.wait_for_output(text, seconds);
  INFO(process.output());
  REQUIRE(appeared);
}

std::vector<std::string> endless_training(Heartbeats heartbeats) {
  std::vector<std::string> flags = command_line(
      "--network lenet --benchmark 1 --num-batches 20 --image-shape 1,28,28 --num-classes 10 "
      "--batch-size 8 --num-epochs 100000 --seed 1 --threads 1 --kv-store dist_sync "
      "--start-timeout 30 --save-period 3");
  if (heartbeats == Heartbeats::kShort) {
    add_words(flags, "--heartbeat-interval 1 --heartbeat-timeout 3 --scheduler-grace 2");
  }
  return flags;
}

LoopbackJob::LoopbackJob(JobSetting setting) : dir_(setting.directory), setting_(std::move(setting)) {
  Member& scheduler = start("scheduler", 0, setting_.scheduler_flags);
  if (!scheduler.process->wait_for_output("dtrain scheduler ", kStartSeconds)) {
    throw std::runtime_error("the scheduler did not start:\n" + scheduler.process->output());
  }
  address_ = address_in(scheduler.process->output());
  if (!setting_.start_all) return;
  for (int i = 0; i < setting_.servers; i++) start("server", i);
  for (int i = 0; i < setting_.workers; i++) start("worker", i);
}

LoopbackJob::Member& LoopbackJob::start(const std::string& role, int rank, const std::vector<std::string>& flags,
                                        const std::string& token, const std::vector<std::string>& environment) {
  const std::vector<std::string> arguments = command_line(
      dtrain_program(), "-n", std::to_string(setting_.workers), "-s", std::to_string(setting_.servers), setting_.flags,
      "--role", role, "--rank", std::to_string(rank), "--run-dir", run_dir(), "--advertise 127.0.0.1",
      role == "scheduler" ? command_line() : command_line("--scheduler", address_), flags);
  ProcessOptions options{.directory = dir_.path(), .environment = environment};
  options.environment.push_back("DTRAIN_TOKEN=" + (token.empty() ? setting_.token : token));
  options.environment.push_back("DTRAIN_LAUNCHED=1");  // await_step reads the scheduler's lines
  members_.push_back({role, rank, std::make_unique<Process>(arguments, options), std::nullopt, {}});
  return members_.back();
}

LoopbackJob::Member& LoopbackJob::member(const std::string& role, int rank) {
  for (Member& member : members_) {
    if (member.role == role && member.rank == rank) return member;
  }
  throw std::runtime_error("no " + role + " " + std::to_string(rank));
}

// Reads the output of every process, because a process blocks when its pipe is full.
void LoopbackJob::look() {
  for (Member& member : members_) {
    if (member.ended || member.process->running()) continue;
    member.ended = member.process->wait(0);
    member.ended_at = Clock::now();
  }
  ::poll(nullptr, 0, kPauseMs);
}

bool LoopbackJob::await_step(int64_t step, double seconds) {
  const auto deadline = after(seconds);
  const Member& scheduler = member("scheduler");
  while (last_step() < step) {
    if (Clock::now() > deadline || scheduler.ended) return false;
    look();
  }
  return true;
}

int64_t LoopbackJob::last_step() {
  return step_in(member("scheduler").process->output());
}

void LoopbackJob::run_for(double seconds) {
  for (const auto end = after(seconds); Clock::now() < end;) look();
}

bool LoopbackJob::await_end(double seconds) {
  for (const auto deadline = after(seconds); Clock::now() < deadline;) {
    look();
    if (running().empty()) return true;
  }
  return false;
}

std::string LoopbackJob::output() const {
  std::string text;
  for (const Member& member : members_) {
    text += "---- " + member.name();
    if (member.ended)
      text += ": code " + std::to_string(member.ended->code) + ", signal " + std::to_string(member.ended->signal);
    text += "\n" + member.process->output();
  }
  return text;
}

std::string LoopbackJob::running() const {
  std::string names;
  for (const Member& member : members_) {
    if (!member.ended) names += (names.empty() ? "" : ", ") + member.name();
  }
  return names;
}

std::string LoopbackJob::codes(const std::string& role) const {
  std::vector<std::string> all;
  for (const Member& member : members_) {
    if (member.role != role) continue;
    all.push_back(!member.ended
                      ? "runs"
                      : std::to_string(member.ended->signal != 0 ? -member.ended->signal : member.ended->code));
  }
  if (std::all_of(all.begin(), all.end(), [&](const auto& code) { return code == all[0]; })) all.resize(1);
  std::string text;
  for (const std::string& code : all) text += (text.empty() ? "" : " ") + code;
  return text;
}

std::string left_over(const std::string& run_dir) {
  std::string found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    std::string command{std::istreambuf_iterator<char>(file), {}};
    std::replace(command.begin(), command.end(), '\0', ' ');
    if (command.find(run_dir) != std::string::npos) found += entry.path().filename().string() + ": " + command + "\n";
  }
  return found;
}

std::string broken_files(const std::string& directory) {
  std::string broken;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    const std::string path = entry.path().string();
    const bool temporary = path.find(".tmp-") != std::string::npos;
    const bool checkpoint = path.ends_with(".params");
    if (temporary || (checkpoint && !read_ndarray_file(path))) broken += path + "\n";
  }
  return broken;
}

int checkpoint_count(const std::string& directory) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    count += entry.path().extension() == ".params";
  return count;
}

}  // namespace dtrain::test
