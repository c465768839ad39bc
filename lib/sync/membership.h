// Who belongs to the job, who is alive, who waits for whom, and when it is over: the scheduler's decisions as a pure
// machine. Events in, effects out; time is a number in the events, so that the gRPC service (rpc/scheduler.h) and the
// tests, in virtual time and from a seed, drive the very same code. distributed.md 3.5, 6.2.
//
// A process is known by its incarnation, 64 random bits that it draws when it starts. It has a rank from the moment
// when everybody has joined. The policy for losses is `fail`: one lost worker or server ends the job for all.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"

namespace dtrain::sync::membership {

enum class Role : uint8_t { kWorker, kServer };

struct Member {
  Role role = Role::kWorker;
  uint32_t rank = 0;
  // clang-tidy 14 takes the compiler's 0 in it for ours. NOLINTNEXTLINE(modernize-use-nullptr)
  auto operator<=>(const Member&) const = default;
};
std::string to_text(const Member& member);                // "worker 3"
std::string to_text(const std::vector<Member>& members);  // "worker 1, server 0"

using Incarnation = uint64_t;  // not 0
using Millis = uint64_t;       // since the scheduler's start; never goes back

struct Settings {
  uint32_t workers = 1;
  uint32_t servers = 0;
  std::string job_text;  // lines "key = value" that every process must agree with
  Millis start_timeout_ms = 300'000;
  Millis heartbeat_timeout_ms = 10'000;
  Millis reconnect_ms = 1'000;  // a closed stream that is not back by then: its process is dead
  Millis log_missing_first_ms = 30'000;
  Millis log_missing_every_ms = 60'000;
  Millis leave_ms = 1'500;  // what survivors of a failed job get to hear of it and say goodbye
};

// The keys of lines "key = value" on which a joiner disagrees with the job, each with both values:
// "batch_size (job: 64, here: 32)". A key that one side lacks differs; the joiner's value "auto" agrees with anything.
std::vector<std::string> differing_keys(std::string_view job_text, std::string_view joiner_text);

// ---- What happens.

// The process asks to take part; again with the same incarnation if its connection broke.
struct Join {
  Incarnation incarnation = 0;
  Role role = Role::kWorker;
  std::optional<uint32_t> want_rank = {};  // nullopt: one that nobody asks for, in order of arrival
  std::string job_text;
  uint64_t records_train = 0;  // of the worker's data set: all workers must have the same
  uint64_t records_val = 0;
};
// Its request ended before the answer: the process is gone.
struct Withdraw {
  Incarnation incarnation = 0;
};
// After Start: the job's text is complete, answers may go out; or it could not be completed.
struct Ready {
  // By worker: the number of a set. A job that is asked to stop ends each set after a step of its own: workers that
  // wait for each other's gradients, or whose distance is bounded, are one set. Empty: all workers are.
  std::vector<uint32_t> stops_with = {};
};
struct StartFailed {
  Code code = Code::kUsage;
  std::string message;
};
// Its control stream stands; and is broken.
struct StreamOpened {
  Incarnation incarnation = 0;
};
struct StreamClosed {
  Incarnation incarnation = 0;
};
// Any sign of life.
struct Heartbeat {
  Incarnation incarnation = 0;
};
struct BarrierEnter {
  Incarnation incarnation = 0;
  std::string name;
  uint64_t seq = 0;    // this worker's barriers so far: the n-th of one worker is the n-th of all
  uint32_t count = 0;  // numbers it brings
  // Ready's, from the end of this barrier on; empty: as before. All bring the same.
  std::vector<uint32_t> stops_with = {};
};
// A signal reached "worker 1" or "the scheduler".
struct StopRequested {
  std::string by;
};
// The answer to Hold.
struct Held {
  Incarnation incarnation = 0;
  uint64_t steps_begun = 0;
};
// The process ends, with success or not, and says so itself.
struct Done {
  Incarnation incarnation = 0;
  std::optional<Code> failure;
  std::string message;
  uint64_t steps_begun = 0;
};
// Time passes: a few times in every reconnect_ms.
struct Tick {};
using Event = std::variant<Join, Withdraw, Ready, StartFailed, StreamOpened, StreamClosed, Heartbeat, BarrierEnter,
                           StopRequested, Held, Done, Tick>;

// ---- What is to be done about it.

struct Node {
  Member member;
  Incarnation incarnation = 0;
};
// All have joined and their records agree: complete the job's text, then tell Ready or StartFailed.
struct Start {
  std::vector<Node> nodes;  // workers by rank, then servers by rank
  uint64_t records_train = 0;
  uint64_t records_val = 0;
};
// Answer its join: with the table and the job, or with an error.
struct Admit {
  Node node;
};
struct Refuse {
  Incarnation incarnation = 0;
  Code code = Code::kUsage;
  std::string why;
};
// Answer its barrier and close its control stream with this error: it does not belong here any more.
struct Reject {
  Incarnation incarnation = 0;
  Code code = Code::kInternal;
  std::string why;
};

// To workers: answer Held, and begin no step until told.
struct Hold {};
// To workers: do steps 0 .. steps - 1 and none later.
struct StopAfter {
  uint64_t steps = 0;
};
// The job failed: end with this error.
struct StopJob {
  Code code = Code::kInternal;
  std::string message;
};
// To servers: all workers are done; or stopped on request.
struct Finish {
  bool preempted = false;
};
using Notice = std::variant<Hold, StopAfter, StopJob, Finish>;
struct Tell {
  Incarnation to = 0;
  Notice notice;
};

// All live workers are in: answer them all. Repeat: one asks again for what was released, and gets the same answer.
struct ReleaseBarrier {
  uint64_t seq = 0;
};
struct RepeatBarrier {
  Incarnation to = 0;
  uint64_t seq = 0;
};
// For the log.
struct DeclareLost {
  Member member;
  Millis silent_ms = 0;
};
struct LogMissing {
  std::string what;
  std::vector<Member> missing;
  Millis waited_ms = 0;
};
// The scheduler's work is over; nullopt: all is well.
struct End {
  std::optional<StopJob> failure;
};
using Effect =
    std::variant<Start, Admit, Refuse, Reject, Tell, ReleaseBarrier, RepeatBarrier, DeclareLost, LogMissing, End>;

class Machine {
 public:
  explicit Machine(Settings settings, Millis now_ms = 0);

  // Appends the effects of `event` in the order to carry them out. Same events, same effects, always.
  void on(Millis now_ms, const Event& event, std::vector<Effect>& out);

  [[nodiscard]] bool started() const { return phase_ != Phase::kGathering && phase_ != Phase::kStarting; }
  [[nodiscard]] bool ended() const { return phase_ == Phase::kEnded; }
  // nullopt before the start, and for who is not known.
  [[nodiscard]] std::optional<Member> member(Incarnation incarnation) const;

 private:
  enum class Phase {
    kGathering,  // processes join
    kStarting,   // Start is out, Ready is awaited
    kRunning,
    kHolding,    // Hold is out, answers are awaited
    kStopping,   // StopAfter is out
    kFinishing,  // all workers are done, servers were told
    kFailing,    // StopJob is out
    kEnded,
  };
  struct Process {
    Join join;
    uint64_t arrival = 0;
    uint32_t rank = 0;  // valid from Start on
    Millis heard_ms = 0;
    std::optional<Millis> closed_ms;  // its stream is down since
    bool gone = false;                // done, or lost
    std::optional<uint64_t> held;     // its answer to Hold
    uint64_t steps_begun = 0;         // of one that is done
  };
  struct Barrier {
    BarrierEnter first;  // the others' are the same
    std::set<uint32_t> ranks;
    Millis since_ms = 0;
    Millis log_ms = 0;
  };
  using Out = std::vector<Effect>;

  void handle(const Join& event, Out& out);
  void handle(const Withdraw& event, Out& out);
  void handle(const Ready& event, Out& out);
  void handle(const StartFailed& event, Out& out);
  void handle(const StreamOpened& event, Out& out);
  void handle(const StreamClosed& event, Out& out);
  void handle(const Heartbeat& event, Out& out);
  void handle(const BarrierEnter& event, Out& out);
  void handle(const StopRequested& event, Out& out);
  void handle(const Held& event, Out& out);
  void handle(const Done& event, Out& out);
  void handle(const Tick& event, Out& out);

  [[nodiscard]] std::optional<Refuse> objection(const Join& join) const;
  [[nodiscard]] std::string objection(const Process& process, const BarrierEnter& event) const;
  [[nodiscard]] std::set<uint32_t> wanted_ranks(Role role) const;
  [[nodiscard]] uint32_t expected(Role role) const;
  [[nodiscard]] uint32_t joined(Role role) const;
  [[nodiscard]] std::vector<Member> missing_members() const;
  void give_ranks();
  bool refuse_other_records(Out& out);
  void start_if_complete(Out& out);
  void fail_start(Code code, const std::string& message, Out& out);

  void fail_job(Code code, const std::string& message, Out& out);
  void lose(Process& process, const std::string& how, Out& out);
  void look_for_lost(Out& out);
  void look_for_missing(Out& out);
  void settle(Out& out);  // after somebody entered, answered or left: whatever is complete now
  void settle_barrier(Out& out);
  void settle_hold(Out& out);
  void settle_end(Out& out);
  [[nodiscard]] uint32_t stop_set(const Process& process) const;
  [[nodiscard]] std::string stopped_after() const;
  [[nodiscard]] std::optional<Notice> notice_for(const Process& process) const;
  void tell(Role role, Out& out);
  [[nodiscard]] bool all_gone(Role role) const;
  [[nodiscard]] Member member_of(const Process& process) const { return {process.join.role, process.rank}; }
  Process* known(Incarnation incarnation);

  Settings settings_;
  Phase phase_ = Phase::kGathering;
  Millis now_ms_;
  Millis phase_since_ms_;
  Millis log_ms_;  // when to say again who has not joined
  std::map<Incarnation, Process> processes_;
  uint64_t arrivals_ = 0;
  std::optional<Barrier> barrier_;  // the open one
  uint64_t barriers_released_ = 0;
  std::vector<uint32_t> stops_with_;         // Ready's
  std::map<uint32_t, uint64_t> stop_after_;  // by set, once all have answered Hold
  bool stop_requested_ = false;
  bool preempted_ = false;  // a worker has ended because of it
  StopJob failure_;
};

}  // namespace dtrain::sync::membership
