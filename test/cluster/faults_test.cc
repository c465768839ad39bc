// Workers are killed (-9) or stopped (SIGSTOP) at messages that are drawn from a seed, several in each job: the leader,
// another worker, and workers that join. What must hold: the job trains to its end, or stops as asked, or ends in time
// with the code of a lost process if it may not continue; the servers' decisions are those of the protocol; and nothing
// is left behind.

#include <array>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/random.h"
#include "cluster/changing_job.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/drawn_seeds.h"
#include "support/text.h"

using namespace dtrain;
using namespace dtrain::test;
using dtrain::test::contains;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array kKinds = {"dist_sync -s 2",
                               "dist_async -s 2",
                               "allreduce -s 0",
                               "dist_gsync -s 2",
                               "dist_sync -s 2 --update-on worker",
                               "dist_ssync -s 2 --staleness 1",
                               "nccl_allreduce -s 0 --cpus 2",
                               "dist_sync -s 2 --backup 1"};

constexpr uint64_t kJoinerRank = 3;   // --max-workers 4
constexpr double kJobSeconds = 180;   // the latest end of a job after its start
constexpr double kTrainSeconds = 20;  // a job without a last epoch is stopped when all faults have come, or after this
constexpr double kStayMax = 5;        // a worker that has joined and meets no fault is told to leave after this
constexpr double kGrace = 40;         // --scheduler-grace, for which a worker that joins looks for the job, and noise

enum class Phase : uint8_t { kStarting, kTraining, kHolding, kDraining, kMeeting, kJoining, kFinishing };
constexpr std::array kPhaseNames = {"starting", "training", "holding", "draining", "meeting", "joining", "finishing"};
enum class Who : uint8_t { kLeader, kOther, kJoiner };
constexpr std::array kWhoNames = {"leader", "other", "joiner"};

// A kind of message at which a fault can come: at one of its numbers first .. last, and up to later_ms after it.
struct Moment {
  Phase phase = Phase::kTraining;
  const char* message = "";
  uint64_t first = 1, last = 1;
  double later_ms = 0;
  bool needs_servers = false;
};

constexpr std::array kOfStart = {
    Moment{Phase::kStarting, "join"},
    Moment{Phase::kStarting, "join_reply"},
    Moment{Phase::kStarting, "hello"},
    Moment{Phase::kStarting, "barrier", 1, 3, 3},
    Moment{Phase::kStarting, "barrier_reply", 1, 3},
};
// The n-th barrier of a worker depends on the kind of job: barriers of the start, of epochs and of borders follow.
constexpr std::array kOfTraining = {
    Moment{Phase::kTraining, "step", 1, 60},          Moment{Phase::kTraining, "data", 10, 600, 0, true},
    Moment{Phase::kTraining, "heartbeat", 2, 6},      Moment{Phase::kHolding, "hold", 1, 5},
    Moment{Phase::kHolding, "held", 1, 5, 3},         Moment{Phase::kDraining, "stop_after", 1, 5},
    Moment{Phase::kDraining, "stop_after", 1, 5, 15}, Moment{Phase::kMeeting, "barrier", 6, 20},
    Moment{Phase::kMeeting, "barrier", 6, 20, 5},     Moment{Phase::kMeeting, "barrier_reply", 6, 20},
};
constexpr std::array kOfEnd = {Moment{Phase::kFinishing, "done", 1, 1, 5}, Moment{Phase::kFinishing, "done_reply"}};
constexpr std::array kOfJoining = {
    Moment{Phase::kJoining, "join"},
    Moment{Phase::kJoining, "join", 1, 1, 50},
    Moment{Phase::kJoining, "join_reply"},
    Moment{Phase::kJoining, "hello"},
    Moment{Phase::kJoining, "view", 1, 2},
    Moment{Phase::kJoining, "data", 1, 20, 0, true},
    Moment{Phase::kJoining, "barrier"},
    Moment{Phase::kJoining, "barrier", 1, 1, 30},
    Moment{Phase::kJoining, "barrier_reply"},
    Moment{Phase::kTraining, "step", 0, 20},
    Moment{Phase::kHolding, "hold", 1, 2},
    Moment{Phase::kHolding, "held", 1, 2, 3},
    Moment{Phase::kDraining, "stop_after", 1, 2, 15},
    Moment{Phase::kMeeting, "barrier", 2, 4, 5},
    Moment{Phase::kMeeting, "barrier_reply", 2, 4},
    Moment{Phase::kFinishing, "done", 1, 1, 5},
};

struct Fault {
  uint64_t rank = 0;
  Who who = Who::kOther;
  Moment moment = {};
  uint64_t number = 1;
  double later_ms = 0;
  std::optional<double> stands_s = {};  // stopped for so long; nullopt: killed
  bool has_come = false;

  [[nodiscard]] std::string rule() const {
    const std::string later = later_ms > 0 ? "+" + std::to_string(later_ms) + "ms" : "";
    return (stands_s ? "stop=worker:" : "kill=worker:") + std::to_string(rank) + "@" + moment.message + ":" +
           std::to_string(number) + later;
  }
};

template <size_t n>
Fault draw_fault(uint64_t rank, Who who, const std::array<Moment, n>& moments, bool has_servers, RandomStream& random) {
  Fault fault{.rank = rank, .who = who};
  do {
    fault.moment = moments[static_cast<size_t>(random.below(n))];
  } while (fault.moment.needs_servers && !has_servers);
  fault.number = fault.moment.first + static_cast<uint64_t>(random.below(fault.moment.last - fault.moment.first + 1));
  if (fault.moment.later_ms > 0) fault.later_ms = random.uniform(0.1, fault.moment.later_ms);
  // A third is stopped: a half of these for less than the heartbeat timeout.
  if (random.below(3) == 0) fault.stands_s = random.below(2) == 0 ? random.uniform(0.2, 2) : random.uniform(4, 8);
  return fault;
}

// What happens to one job.
struct JobPlan {
  std::string policy;
  bool is_endless = false;       // it is stopped when all faults have come; otherwise it trains to its end
  bool may_fail = false;         // a fault may end it
  bool divides_at_once = false;  // --reshare now
  std::vector<Fault> of_first;   // of workers that the launcher starts, at most one each
  std::vector<Fault> of_joiners;
};

JobPlan draw_plan(uint64_t seed, bool has_servers, RandomStream& random) {
  JobPlan plan;
  plan.policy = seed % 7 == 6 ? "fail" : seed % 2 == 0 ? "shrink" : "wait";
  plan.is_endless = random.below(3) > 0;
  const bool is_at_start = seed % 9 == 8;
  plan.may_fail = plan.policy == "fail" || is_at_start;
  plan.divides_at_once = random.below(2) == 0 && plan.policy != "fail";
  const auto spared = static_cast<uint64_t>(random.below(kWorkers));  // so that the job always has a worker
  for (uint64_t rank = 0; rank < kWorkers; rank++) {
    if (rank == spared) continue;
    const Who who = rank == 0 ? Who::kLeader : Who::kOther;
    if (is_at_start) {
      if (plan.of_first.empty()) plan.of_first.push_back(draw_fault(rank, who, kOfStart, has_servers, random));
    } else if (!plan.is_endless && random.below(2) == 0) {
      plan.of_first.push_back(draw_fault(rank, who, kOfEnd, has_servers, random));
    } else {
      plan.of_first.push_back(draw_fault(rank, who, kOfTraining, has_servers, random));
    }
  }
  for (int i = 0; !plan.may_fail && i < 4; i++)
    plan.of_joiners.push_back(draw_fault(kJoinerRank, Who::kJoiner, kOfJoining, has_servers, random));
  return plan;
}

// The faults that have come, by phase and process.
using Table = std::array<std::array<int, kWhoNames.size()>, kPhaseNames.size()>;

std::string to_text(const Table& table) {
  std::string text;
  for (size_t phase = 0; phase < kPhaseNames.size(); phase++) {
    text += kPhaseNames[phase];
    for (size_t who = 0; who < kWhoNames.size(); who++)
      text += std::string(who == 0 ? ": " : ", ") + kWhoNames[who] + " " + std::to_string(table[phase][who]);
    text += "\n";
  }
  return text;
}

// Only workers that join can be in this phase, and only the others can be in the start.
bool can_be(size_t phase, size_t who) {
  const bool joins = who == static_cast<size_t>(Who::kJoiner);
  if (phase == static_cast<size_t>(Phase::kJoining)) return joins;
  return phase != static_cast<size_t>(Phase::kStarting) || !joins;
}

// The processes of the run that a signal has stopped.
std::set<pid_t> stopped_processes(const std::string& run_dir) {
  std::set<pid_t> stopped;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string stat = read_file(entry.path() / "stat").value_or("");
    if (!contains(stat, ") T ")) continue;
    const std::string words = read_file(entry.path() / "cmdline").value_or("");
    const std::string directory = std::filesystem::read_symlink(entry.path() / "cwd", ignored);
    if (contains(words, run_dir) || run_dir.starts_with(directory + "/"))
      stopped.insert(std::atoi(entry.path().filename().c_str()));
  }
  return stopped;
}

class FaultyJob {
 public:
  FaultyJob(const ChangingJobs& jobs, std::string run_dir, JobPlan plan, bool has_servers)
      : jobs_(jobs),
        run_dir_(std::move(run_dir)),
        plan_(std::move(plan)),
        launcher_(command(has_servers), jobs.options()) {}

  // Returns when the job has ended.
  Ended run() {
    while (launcher_.running() && seconds() < kJobSeconds) {
      launcher_.wait_for_output("no process prints this", 0.02);
      continue_stopped();
      if (!trains_at_ && contains(launcher_.output(), "Epoch[0] Batch [")) trains_at_ = seconds();
      if (trains_at_) look_after_joiner();
      if (trains_at_ && plan_.is_endless && !was_told_to_stop_ && (all_have_come() || trained() > kTrainSeconds)) {
        launcher_.signal(SIGTERM);
        was_told_to_stop_ = true;
      }
    }
    const bool is_late = launcher_.running();
    for (const pid_t pid : stopped_processes(jobs_.path(run_dir_))) ::kill(pid, SIGCONT);
    Ended end = launcher_.wait(is_late ? 0 : kRunSeconds);
    if (joiner_ != nullptr) end_joiner(kGrace);
    note_first(end.output);
    return end;
  }

  [[nodiscard]] const JobPlan& plan() const { return plan_; }
  [[nodiscard]] const std::string& joiners_output() const { return joiners_output_; }
  [[nodiscard]] bool joiners_ended() const { return joiners_ended_; }
  [[nodiscard]] std::vector<Fault> faults_that_came() const {
    std::vector<Fault> came;
    for (const std::vector<Fault>* faults : {&plan_.of_first, &plan_.of_joiners}) {
      for (const Fault& fault : *faults) {
        if (fault.has_come) came.push_back(fault);
      }
    }
    return came;
  }

 private:
  [[nodiscard]] std::vector<std::string> command(bool has_servers) const {
    std::string rules = "step-ms=8";
    for (const Fault& fault : plan_.of_first) rules += "," + fault.rule();
    std::string changes = plan_.policy == "fail" ? "" : "--max-workers 4 ";
    if (!plan_.may_fail) changes += "--max-restarts 9 ";
    if (plan_.divides_at_once) changes += "--reshare now ";
    const std::vector<std::string> more = command_line(changes.c_str(), "--save-every 0.7s --inject", rules,
                                                       "--num-epochs", plan_.is_endless ? "100000" : "12");
    if (!has_servers) return jobs_.command(run_dir_, more);
    return jobs_.command(run_dir_, command_line(more, "--trace-events", jobs_.path(run_dir_ + ".events")));
  }
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }
  [[nodiscard]] double trained() const { return seconds() - *trains_at_; }

  void note_first(const std::string& output) {
    for (Fault& fault : plan_.of_first) {
      const std::string who = "[worker " + std::to_string(fault.rank) + " ";
      std::istringstream lines(output);
      for (std::string line; std::getline(lines, line);) {
        if (contains(line, who) && contains(line, std::string(" this process at ") + fault.moment.message))
          fault.has_come = true;
      }
    }
  }
  [[nodiscard]] bool all_have_come() {
    note_first(launcher_.output());
    for (const Fault& fault : plan_.of_first) {
      if (!fault.has_come) return false;
    }
    return joiner_ == nullptr && next_joiner_ == plan_.of_joiners.size();
  }

  // Each stands still for as long as its fault says.
  void continue_stopped() {
    const std::set<pid_t> stopped = stopped_processes(jobs_.path(run_dir_));
    for (const pid_t pid : stopped) {
      const auto since = stopped_since_.try_emplace(pid, seconds()).first->second;
      if (seconds() - since > stands_of(pid)) ::kill(pid, SIGCONT);
    }
    std::erase_if(stopped_since_, [&](const auto& entry) { return !stopped.contains(entry.first); });
  }
  [[nodiscard]] double stands_of(pid_t pid) const {
    if (joiner_ != nullptr && joiner_->pid() == pid) return plan_.of_joiners[next_joiner_ - 1].stands_s.value_or(0);
    const std::string words = read_file("/proc/" + std::to_string(pid) + "/cmdline").value_or("");
    for (const Fault& fault : plan_.of_first) {
      if (contains(words, std::string("--rank") + '\0' + std::to_string(fault.rank) + '\0'))
        return fault.stands_s.value_or(0);
    }
    return 0;
  }

  // One worker after the other joins in the additional seat.
  void look_after_joiner() {
    if (joiner_ == nullptr) {
      if (next_joiner_ == plan_.of_joiners.size() || was_told_to_stop_) return;
      const Fault& fault = plan_.of_joiners[next_joiner_++];
      joiner_ = std::make_unique<Process>(
          command_line(dtrain_program(), "join --rank", std::to_string(kJoinerRank), "--inject", fault.rule()),
          jobs_.options());
      joined_at_ = seconds();
      return;
    }
    if (!joiner_->running()) return end_joiner(0);
    Fault& fault = plan_.of_joiners[next_joiner_ - 1];
    if (contains(joiner_->output(), "this process at ")) fault.has_come = true;
    const double stays = seconds() - joined_at_ - fault.stands_s.value_or(0);
    if (stays > kStayMax && !is_leaving_) joiner_->signal(SIGINT);
    is_leaving_ = stays > kStayMax;
  }
  void end_joiner(double limit) {
    Fault& fault = plan_.of_joiners[next_joiner_ - 1];
    const Ended end = joiner_->wait(limit);
    if (contains(end.output, "this process at ")) fault.has_come = true;
    joiners_output_ += "joiner with " + fault.rule() + ":\n" + end.output;
    joiners_ended_ = joiners_ended_ && !end.timed_out;
    joiner_.reset();
    is_leaving_ = false;
  }

  const ChangingJobs& jobs_;
  std::string run_dir_;
  JobPlan plan_;
  Clock::time_point began_ = Clock::now();
  Process launcher_;
  std::optional<double> trains_at_;
  bool was_told_to_stop_ = false;
  std::map<pid_t, double> stopped_since_;
  std::unique_ptr<Process> joiner_;  // has the fault before next_joiner_
  size_t next_joiner_ = 0;
  double joined_at_ = 0;
  bool is_leaving_ = false;
  std::string joiners_output_;
  bool joiners_ended_ = true;
};

// No server, and no worker without a fault, has been started twice.
void check_survivors(const ChangingJobs& jobs, const std::string& run_dir, const JobPlan& plan) {
  std::set<std::string> logs = {"server-0", "server-1", "worker-0", "worker-1", "worker-2"};
  for (const Fault& fault : plan.of_first) logs.erase("worker-" + std::to_string(fault.rank));
  for (const std::string& name : logs) {
    INFO(name);
    const std::string log = jobs.text_of(run_dir + "/" + name + ".log"), words = "start with arguments ";
    CHECK(log.find(words) == log.rfind(words));
  }
}

void check_servers(const ChangingJobs& jobs, const std::string& run_dir) {
  for (const char* rank : {"0", "1"}) {
    const std::string events = jobs.path(run_dir + ".events." + rank);
    if (!std::filesystem::exists(events)) continue;
    const Ended replayed = jobs.ask({"simulate", "--replay", events});
    INFO(replayed.output);
    CHECK(replayed.code == 0);
  }
}

}  // namespace

// DTRAIN_FAULT_SEEDS=1-100 runs a hundred jobs.
TEST_CASE("workers are killed and stopped at drawn messages, and each job ends as it should", "[faults]") {
  DrawnSeeds seeds = drawn_seeds("DTRAIN_KILL_SEEDS");
  seeds.last = seeds.first + 4;
  seeds = drawn_seeds("DTRAIN_FAULT_SEEDS", seeds);
  Table table{};
  int count = 0;
  for (uint64_t seed = seeds.first; seed <= seeds.last; seed++) {
    const char* kind = kKinds[seed % kKinds.size()];
    INFO("seed " << seed << ": " << kind);
    RandomStream random(seed, Use::kFaults, 500);
    const bool has_servers = contains(kind, "-s 2");
    const JobPlan plan = draw_plan(seed, has_servers, random);
    const ChangingJobs jobs(plan.policy, command_line("--kv-store", kind));
    FaultyJob job(jobs, "run", plan, has_servers);
    const Ended end = job.run();
    INFO(job.plan().policy << "\n" << end.output << "\n" << job.joiners_output());
    CHECK_FALSE(end.timed_out);
    CHECK(job.joiners_ended());
    const bool is_lost = end.code == 5 && job.plan().may_fail && !job.faults_that_came().empty();
    CHECK((is_lost || end.code == (job.plan().is_endless ? 75 : 0)));
    CHECK(left_over(jobs.path("run")).empty());
    if (std::filesystem::exists(jobs.path("run"))) CHECK(broken_files(jobs.path("run")).empty());
    check_servers(jobs, "run");
    if (!job.plan().may_fail) {
      check_survivors(jobs, "run", job.plan());
      CHECK(jobs.summary("run").at("exit_code") == end.code);
    }
    for (const Fault& fault : job.faults_that_came()) {
      table[static_cast<size_t>(fault.moment.phase)][static_cast<size_t>(fault.who)]++;
      count++;
    }
  }
  WARN("seeds " << seeds.first << " to " << seeds.last << ": " << count << " faults\n" << to_text(table));
  if (seeds.last - seeds.first < 50) return;
  for (size_t phase = 0; phase < kPhaseNames.size(); phase++) {
    for (size_t who = 0; who < kWhoNames.size(); who++) {
      INFO(kPhaseNames[phase] << ", " << kWhoNames[who]);
      if (can_be(phase, who)) CHECK(table[phase][who] > 0);
    }
  }
}
