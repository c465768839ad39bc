// A job of real processes on this machine, each started by hand, so that each can be killed and its end looked at.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temp_dir.h"

namespace dtrain::test {

// The program under test: the variable DTRAIN_PROGRAM, which the build sets.
std::string dtrain_program();

// A free port of 127.0.0.1 at this moment, and whether one is free.
uint16_t free_port();
bool is_free(uint16_t port);
// The port of "HOST:PORT".
uint16_t port_of(const std::string& address);

// A small labelled set of pictures, made by `dtrain data synth` in the folder.
void make_pictures(const std::string& directory);

enum class Heartbeats {
  kShort,    // every second, lost after 3 s, 2 s of grace for the scheduler: so that a suite has time for many deaths
  kDefault,  // the program's own: 2 s, 10 s, 30 s
};

// lenet on made-up data, without end. An epoch, every third one a checkpoint, is 20 steps.
std::vector<std::string> endless_training(Heartbeats heartbeats = Heartbeats::kShort);

struct JobSetting {
  int workers = 2, servers = 2;
  std::vector<std::string> flags = endless_training();  // of every process, besides role, rank and addresses
  std::string token = "00112233445566778899aabbccddeeff";
  std::vector<std::string> scheduler_flags = {};
  bool start_all = true;  // else the scheduler alone
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

  // Starts one more; `flags` come last. Gives the member, which stays where it is.
  Member& start(const std::string& role, int rank, const std::vector<std::string>& flags = {},
                const std::string& token = "");

  Member& member(const std::string& role, int rank = 0);
  std::deque<Member>& members() { return members_; }
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] std::string run_dir() const { return dir_.path("run"); }

  // Reads what all print until the scheduler has said that the job is at step `step`; false when it ended or the time
  // is up.
  bool await_step(int64_t step, double seconds);
  // Reads what all print for a while.
  void run_for(double seconds);
  // Until all have ended; false when the time is up (they run on).
  bool await_end(double seconds);
  // What all printed, for a failing test's message.
  [[nodiscard]] std::string output() const;
  // The names of members that still run.
  [[nodiscard]] std::string running() const;
  // "5" when all of the role ended with 5, else all codes, as "5 0"; a signal as "-9".
  [[nodiscard]] std::string codes(const std::string& role) const;

 private:
  void look();

  TempDir dir_;
  JobSetting setting_;
  std::string address_;
  std::deque<Member> members_;
};

// Files of a run that should not be there, or should be whole and are not: temporary ones, checkpoints that cannot be
// read. Empty: none.
std::string broken_files(const std::string& directory);
// Checkpoints of the run.
int checkpoint_count(const std::string& directory);

}  // namespace dtrain::test
