// A job of real processes on this host. Each process is started separately, so that a test can kill it and check how
// it ended.
#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temp_dir.h"

namespace dtrain::test {

// The program under test: the environment variable DTRAIN_PROGRAM, which the build sets.
std::string dtrain_program();

// The address "HOST:PORT" in the output of a scheduler; empty if it has not printed it yet.
std::string address_in(const std::string& output);
// The port of "HOST:PORT".
uint16_t port_of(const std::string& address);

// Makes a small set of labeled images in the directory, with `dtrain data synth`.
void make_images(const std::string& directory);

// REQUIREs that `text` appears in the output of the process within this time.
void await_output(Process& process, const std::string& text, double seconds);

enum class Heartbeats {
  kShort,    // interval 1 s, timeout 3 s, scheduler grace 2 s: short, so that a suite has time for many kills
  kDefault,  // the program's defaults: 2 s, 10 s, 30 s
};

// Flags that train lenet on generated data forever. An epoch has 20 steps; every third epoch writes a checkpoint.
std::vector<std::string> endless_training(Heartbeats heartbeats = Heartbeats::kShort);

struct JobSetting {
  int workers = 2, servers = 2;
  std::vector<std::string> flags = endless_training();  // of every process, in addition to role, rank and addresses
  std::string token = "00112233445566778899aabbccddeeff";
  std::vector<std::string> scheduler_flags = {};
  bool start_all = true;                                                     // false: only the scheduler
  std::filesystem::path directory = std::filesystem::temp_directory_path();  // where the job makes its own
};

class LoopbackJob {
 public:
  struct Member {
    std::string role;
    int rank = 0;
    std::unique_ptr<Process> process;
    std::optional<Ended> ended;
    std::chrono::steady_clock::time_point ended_at;

    [[nodiscard]] std::string name() const { return role == "scheduler" ? role : role + " " + std::to_string(rank); }
  };

  explicit LoopbackJob(JobSetting setting);

  // Starts one more process; `flags` come last on its command line, and `environment` is added to its variables. The
  // reference stays valid.
  Member& start(const std::string& role, int rank, const std::vector<std::string>& flags = {},
                const std::string& token = "", const std::vector<std::string>& environment = {});

  Member& member(const std::string& role, int rank = 0);
  std::deque<Member>& members() { return members_; }
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] std::string run_dir() const { return dir_.path("run"); }

  // Reads the output of all processes until the scheduler has reported step `step`. False if the job ended before or
  // the time is up.
  bool await_step(int64_t step, double seconds);
  // The step in the last line "live ..." of the scheduler's output; -1 if there is none yet.
  int64_t last_step();
  // Reads the output of all processes for this time.
  void run_for(double seconds);
  // Waits until all have ended. False if the time is up; the processes then keep running.
  bool await_end(double seconds);
  // The output of all processes, for a failing test's message.
  [[nodiscard]] std::string output() const;
  // The names of the members that still run.
  [[nodiscard]] std::string running() const;
  // The exit codes of a role's processes: "5" if all ended with 5, else each code, as in "5 0". A signal is negative:
  // "-9".
  [[nodiscard]] std::string codes(const std::string& role) const;

 private:
  void look();

  TempDir dir_;
  JobSetting setting_;
  std::string address_;
  std::deque<Member> members_;
};

// The command lines of the processes that run anywhere on this host and name the run directory. They hold the job's
// ports, too.
std::string left_over(const std::string& run_dir);
// The names of a run's temporary files and of checkpoints that cannot be read. Empty if there are none.
std::string broken_files(const std::string& directory);
// The number of checkpoints of the run.
int checkpoint_count(const std::string& directory);

}  // namespace dtrain::test
