// The scheduler's decisions as a pure state machine: which processes belong to the job, which are alive, when barriers
// are released, and when the job is over. It takes events and returns effects. Time is a number that comes with each
// event, so the gRPC service (rpc/scheduler.h) and the tests, which use virtual time and a seed, drive the same code.
// See docs/protocol.md, "Membership" and "Failure".
//
// A process is identified by its incarnation, 64 random bits that it draws when it starts. It gets its rank when all
// processes have joined. If a worker is lost, Settings::on_worker_loss decides. If that is not kFail, workers can also
// join while the job runs; they begin at a border. If a server is lost, Settings::on_server_loss decides.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "sync/view.h"

namespace dtrain::sync::membership {

enum class Role : uint8_t { kWorker, kServer };

struct Member {
  Role role = Role::kWorker;
  uint32_t rank = 0;
  // clang-tidy 14 objects to a 0 that the compiler generates. NOLINTNEXTLINE(modernize-use-nullptr)
  auto operator<=>(const Member&) const = default;
};
std::string_view to_text(Role role);                      // returns a text such as "worker"
std::string to_text(const Member& member);                // returns a text such as "worker 3"
std::string to_text(const std::vector<Member>& members);  // returns a text such as "worker 1, server 0"

using Incarnation = uint64_t;  // the 64 random bits that identify a process; not 0
using Millis = uint64_t;       // time since the scheduler's start; never decreases

enum class OnWorkerLoss : uint8_t {
  kFail,    // the job fails
  kWait,    // the job continues without the worker, but another one must take its place
  kShrink,  // the job continues without the worker
};

enum class OnServerLoss : uint8_t {
  kFail,    // the job fails
  kGoBack,  // another server takes its place, and all go back to the newest snapshots of the same version
  kKeep,    // another server takes its place and goes back to its own newest snapshot; the others keep what they have
};

struct Settings {
  uint32_t workers = 1;
  uint32_t servers = 0;
  OnWorkerLoss on_worker_loss = OnWorkerLoss::kFail;
  OnServerLoss on_server_loss = OnServerLoss::kFail;
  uint32_t min_workers = 1;  // the job does not continue with fewer workers; at least 1
  uint32_t max_workers = 0;  // the number of seats of workers; 0: as many as `workers`, which it also is at least
  // With kWait: whether the others stand still, at a border, until another worker has taken the place of a lost one.
  bool stands_still = false;
  // Time within which another process must ask to take the place of a lost worker (kWait) or server.
  Millis rejoin_timeout_ms = 60'000;
  // Whether the workers meet at a border as soon as one of them is gone, to divide what is left of the epoch.
  bool meets_on_change = false;
  std::string job_text;  // lines "key = value" on which every process must agree
  Millis start_timeout_ms = 300'000;
  Millis heartbeat_timeout_ms = 10'000;
  Millis reconnect_ms = 1'000;  // if a closed stream is not reopened within this time, its process is lost
  Millis log_missing_first_ms = 30'000;
  Millis log_missing_every_ms = 60'000;
  uint64_t barrier_bytes_max = 32 << 20;  // limit on the total size of all workers' messages in one barrier
  Millis drain_ms = 1'000;                // see LeaveAsked::by_signal
  Millis leave_ms = 1'500;                // how long survivors of a failed job have to receive the error and sign off
  // A process that has lost this many seats within this time gets no further one, because each time costs the others a
  // border.
  size_t lost_seats_max = 3;
  Millis lost_seats_ms = 600'000;

  // The number of seats of workers.
  [[nodiscard]] uint32_t seats() const { return std::max(workers, max_workers); }
};

// ---- Events, which the machine gets.

// The process asks to take part. It asks again with the same incarnation if its connection broke.
struct Join {
  Incarnation incarnation = 0;
  Role role = Role::kWorker;
  // The rank that the process asks for; nullopt: any rank that no process asks for, assigned in order of arrival.
  std::optional<uint32_t> want_rank = {};
  std::string job_text;
  uint64_t records_train = 0;  // size of the worker's data sets; must be the same on all workers
  uint64_t records_val = 0;
  bool lacks_index = false;  // the worker's record files lack an index, so it does not know its numbers of records yet
  bool prepared = false;     // true in the second join, after Prepare: the numbers of records are known
  // Whether the process, a worker, asks to take part in a job that is running. Then `want_rank` must be an empty seat.
  bool is_late = false;
  // Of a late process: whether a launcher has started it, which then reports its end (ProcessEnded).
  bool is_launched = false;
  uint64_t data_hash = 0;  // a hash of the worker's data sets, which a late worker's must equal
  // Of a late worker: the incarnation with which this process had the seat that it has lost. It gets that seat again if
  // nobody has it, else any other. 0: it had none.
  Incarnation formerly = 0;
  std::string address = {};  // of a server: where workers reach it
};
// The request to join ended before it was answered: the process is gone.
struct Withdraw {
  Incarnation incarnation = 0;
};
// Follows Start: the driver has completed the job's text (Ready), or could not complete it (StartFailed).
struct Ready {
  // The stop set of each seat. When a job is asked to stop, all workers of a set stop after the same step, and each
  // set may stop after a different one. Workers that wait for each other's gradients or whose lead is bounded are in
  // one set. Empty: all workers are in one set.
  std::vector<uint32_t> stop_set_of = {};
};
struct StartFailed {
  Code code = Code::kUsage;
  std::string message;
};
// The process's control stream was opened, or broke.
struct StreamOpened {
  Incarnation incarnation = 0;
};
struct StreamClosed {
  Incarnation incarnation = 0;
};
// The process has shown a sign of life.
struct Heartbeat {
  Incarnation incarnation = 0;
};
// The connections to servers that a worker has lost and not opened again. Replaces the worker's earlier report.
struct LostLink {
  uint32_t server = 0;
  Millis lost_ms = 0;  // how long ago the connection was lost
  std::string why;     // a text such as "from node1 to 10.0.0.2:4000: Connection refused"
};
struct LinksLost {
  Incarnation incarnation = 0;
  std::vector<LostLink> links;
};
// A server has carried out all views up to this number.
struct Viewed {
  Incarnation incarnation = 0;
  uint64_t number = 0;
};
// The versions of a server's durable snapshots. Replaces the server's earlier report.
struct Snapshots {
  Incarnation incarnation = 0;
  std::vector<uint64_t> versions = {};
  bool needs_none = false;  // whether the server has no slice of a parameter, so that it can go back to any version
};
struct BarrierEnter {
  Incarnation incarnation = 0;
  std::string name;
  // The number of barriers that this worker has entered before. The n-th barrier of each worker is the same barrier.
  uint64_t seq = 0;
  // A description of the worker's contribution: "2 numbers", "a message 'speed'". Must be equal for all workers.
  std::string content = {};
  uint64_t bytes = 0;  // size of the message with which the worker enters the barrier
  // Replaces the stop sets of Ready when this barrier is released. Empty: they stay as they are. Must be equal for all
  // workers.
  std::vector<uint32_t> stop_set_of = {};
  // The number of the Hold because of which the worker comes to this barrier, which is then the border's; 0: for
  // another reason. May differ between workers.
  uint64_t border = 0;
  // Whether training begins when this barrier is released, or begins again at an earlier step. Only after the first
  // such barrier can the job continue without a worker. Must be equal for all workers.
  bool begins_training = false;
  // Whether a worker that joins the running job has prepared everything. It then takes part from the next border on,
  // and this request is answered with that border's barrier. The other members, except `incarnation`, do not count.
  bool joins = false;
  // Whether the worker is in the middle of a step that it cannot complete, because the group in which the workers add
  // up their gradients has lost a member, or because a server was lost. The barrier is then a border, or all go back
  // with it (kGoBack). May differ between workers.
  bool is_torn = false;
  // Whether the worker has made all steps of its epoch. May differ between workers.
  bool is_whole = false;
  // The largest version of the servers' snapshots to which this worker can go back; nullopt: it needs none, because it
  // has joined since and takes the position from another worker. May differ between workers.
  std::optional<uint64_t> kept = {};
  // The rank of a worker to which this one could not connect since its last barrier, although both must be in the
  // group.
  std::optional<uint32_t> unreached = {};
};
// A signal asks the job to stop. `by` is the process that received it: "worker 1" or "the scheduler".
struct StopRequested {
  std::string by;
};
// Somebody asks that the worker with this rank leaves, without which the others continue.
struct LeaveAsked {
  uint32_t rank = 0;
  // Whether a signal to the worker's process asks. Then the request takes effect after Settings::drain_ms, unless the
  // whole job is asked to stop by then, or all workers are asked to leave, which also stops the job. The job also stops
  // if it cannot continue without the worker; a request without a signal is refused in this case.
  bool by_signal = false;
};
// A worker asks that all workers meet at a border. May be repeated.
struct BorderAsked {
  Incarnation incarnation = 0;
};
// A worker's answer to Hold.
struct Held {
  Incarnation incarnation = 0;
  uint64_t number = 0;  // as in Hold
  uint64_t steps_begun = 0;
};
// The process ends, successfully or not, and reports that itself.
struct Done {
  Incarnation incarnation = 0;
  std::optional<Code> failure = {};
  std::string message = {};
  uint64_t steps_begun = 0;
  bool has_left = false;  // whether the worker ends because it was asked to leave
};
// A process lives, but has not moved for too long. It counts as lost.
struct GiveUp {
  Member member;
  std::string why;
};
// The launcher, which has started the process, reports that it has ended. If the process has not said so itself, it is
// lost at once: nobody will reopen its stream.
struct ProcessEnded {
  Member member;
  std::string how;  // a text such as "was killed by signal 9 (Killed)"
};
// Time has passed. Must be sent several times within each reconnect_ms.
struct Tick {};
// The scheduler itself did not run for `ms` milliseconds (SIGSTOP, a migrated virtual machine, a busy host), so it
// could not receive any message. To be sent before the late Tick. This time does not count as silence of a process or
// as time of the current phase. A process whose stream has closed has the whole time again to reopen it, because its
// attempt may still be on its way.
struct Slept {
  Millis ms = 0;
};
using Event = std::variant<Join, Withdraw, Ready, StartFailed, StreamOpened, StreamClosed, Heartbeat, LinksLost, Viewed,
                           Snapshots, BarrierEnter, StopRequested, LeaveAsked, BorderAsked, Held, Done, GiveUp,
                           ProcessEnded, Tick, Slept>;

// ---- Effects, which the machine returns.

struct Node {
  Member member;
  Incarnation incarnation = 0;
};
// All have joined and their numbers of records agree: complete the job's text, then send Ready or StartFailed.
struct Start {
  std::vector<Node> nodes;  // workers sorted by rank, then servers sorted by rank
  uint64_t records_train = 0;
  uint64_t records_val = 0;
};
// All processes have joined, but the record files of a worker lack an index. Answer the process's join: from now on the
// process has its rank, is monitored, and may enter barriers. It joins a second time when its data is ready. The start
// timeout no longer applies.
struct Prepare {
  Node node;
};
// Answer the process's join with the table of nodes and the job.
struct Admit {
  Node node;
  // Of a server that takes the place of a lost one: how often the servers had gone back before (View::restores).
  // Nullopt: it takes part from the start, or is a worker.
  std::optional<uint64_t> restores = {};
};
// Answer the process's join with this error.
struct Refuse {
  Incarnation incarnation = 0;
  Code code = Code::kUsage;
  std::string why;
};
// Answer the process's barrier and close its control stream with this error: it is not, or no longer, part of the job.
struct Reject {
  Incarnation incarnation = 0;
  Code code = Code::kInternal;
  std::string why;
};

// To workers: answer with Held, and begin no step before StopAfter.
struct Hold {
  uint64_t number = 0;  // counts the Holds of the job
};
// To workers: make steps 0 .. steps - 1 and no later one, then either end, or come to the border: a barrier with
// BarrierEnter::border, after which all continue.
struct StopAfter {
  uint64_t number = 0;  // as in Hold
  uint64_t steps = 0;
  bool meets = false;
};
// To a worker: make the step that has begun, begin no later one, and leave the job; with `at_border`, only when a
// border is reached.
struct LeaveJob {
  bool at_border = false;
};
// The job has failed: end with this error.
struct StopJob {
  Code code = Code::kInternal;
  std::string message;
};
// To servers: all workers are done; `preempted` if they stopped on request.
struct Finish {
  bool preempted = false;
};
// A View goes to all processes; see sync/seat.h.
using Notice = std::variant<Hold, StopAfter, LeaveJob, StopJob, Finish, View>;
struct Tell {
  Incarnation to = 0;
  Notice notice;
};

// ReleaseBarrier: all live workers have entered, so answer all of them. RepeatBarrier: a worker asks again for a
// barrier that was released, so give it the same answer.
struct ReleaseBarrier {
  uint64_t seq = 0;
  std::vector<uint32_t> gone;    // the ranks for which nobody takes part, sorted
  std::vector<uint32_t> joined;  // the ranks of the workers that take part from now on, sorted
  // The ranks that were lost and that another worker must take (kWait), or takes from now on, sorted.
  std::vector<uint32_t> lost;
  // At a border: the number of the newest Hold. All workers have passed it, also those that it had not reached yet.
  uint64_t passed = 0;
  // The version of the snapshots to which the servers have gone back, and the workers must go too; nullopt: they have
  // not.
  std::optional<uint64_t> restored = {};
  uint64_t view = 0;  // with `restored`: the number of the view with the addresses of all servers
};
struct RepeatBarrier {
  Incarnation to = 0;
  uint64_t seq = 0;
};
// A process was declared lost. This effect is only for the log.
struct DeclareLost {
  Member member;
  Millis silent_ms = 0;
  std::string why;         // a text such as "its process was killed by signal 9 (Killed)"
  bool continues = false;  // whether the job continues without it
};
// A worker has left as it was asked, and the job continues. Answers every LeaveAsked for it.
struct DeclareLeft {
  Member member;
};
// A worker has joined the running job, and begins at the border whose barrier is about to end. Or a server has taken
// the place of a lost one.
struct DeclareJoined {
  Member member;
};
// A process that was about to join was lost or has ended. Nothing changes for the others.
struct DeclareDropped {
  Member member;
  std::string why;
  // Whether it was about to take its own place again, in which another worker is awaited now (kWait).
  bool needs_another = false;
};
// Answers a LeaveAsked: the worker does not leave.
struct RefuseLeave {
  uint32_t rank = 0;
  std::string why;
};
// The servers go back to these snapshots; only for the log.
struct DeclareRestore {
  uint64_t version = 0;
  bool others_keep = false;  // only those that take the place of lost ones go back, none to an earlier version
};
struct LogMissing {
  std::string what;
  std::vector<Member> missing;
  Millis waited_ms = 0;
};
// The scheduler's work is over. Nullopt: the job succeeded.
struct End {
  std::optional<StopJob> failure;
};
using Effect = std::variant<Start, Prepare, Admit, Refuse, Reject, Tell, ReleaseBarrier, RepeatBarrier, DeclareLost,
                            DeclareLeft, DeclareJoined, DeclareDropped, DeclareRestore, RefuseLeave, LogMissing, End>;

// What a machine has decided, as texts by key.
using Decisions = std::map<std::string, std::string>;

class Machine {
 public:
  explicit Machine(Settings settings, Millis now_ms = 0);

  // Appends the effects of `event` to `out`, in the order in which to carry them out. Deterministic: the same events
  // give the same effects.
  void on(Millis now_ms, const Event& event, std::vector<Effect>& out);

  // Whether processes have ranks and are monitored.
  [[nodiscard]] bool started() const { return phase_ != Phase::kGathering && phase_ != Phase::kStarting; }
  [[nodiscard]] bool ended() const { return phase_ == Phase::kEnded; }
  // Nullopt before the start, for an unknown process, and for one that has lost its seat: nothing of it counts.
  [[nodiscard]] std::optional<Member> member(Incarnation incarnation) const;

  // Everything that must not be forgotten when the scheduler is killed and started again. Nullopt: nothing is decided
  // yet, nothing new is decided until Ready, or the job has ended. It changes only with events, and not with Heartbeat,
  // LinksLost, StreamOpened and Slept.
  [[nodiscard]] std::optional<Decisions> decisions() const;
  // Continues the job of the machine that has returned `decisions`. To be called before any event, on a machine with
  // the same settings; `now_ms` is on the clock of the other machine. All streams are closed, requests that were not
  // answered come again, and all time limits start now. Code::kData: these are not the decisions of such a machine,
  // and this one is of no further use.
  Result<> restore(const Decisions& decisions, Millis now_ms);
  // The lost workers (kWait) and servers that others must replace and whose places nobody is about to take, sorted.
  [[nodiscard]] std::vector<Member> vacancies() const;

 private:
  struct Fields;  // membership_decisions.cc
  enum class Phase {
    kGathering,  // processes are joining
    kPreparing,  // Prepare was sent; waiting for the second joins
    kStarting,   // Start was sent; waiting for Ready
    kRunning,
    kHolding,    // Hold was sent; waiting for the workers' answers
    kStopping,   // StopAfter was sent; if meets_, waiting for the workers at the border
    kFinishing,  // all workers are done, and the servers have been told
    kFailing,    // StopJob was sent
    kEnded,
  };
  // How far a worker that joins the running job has come. All other processes take part from the start.
  enum class Standing {
    kKnown,      // its seat was published; waiting for the servers' acknowledgements
    kPreparing,  // its join was answered
    kReady,      // it waits for a border
    kTakesPart,
  };
  struct CutLink {
    Millis since_ms = 0;
    std::string why;
  };
  struct Process {
    Join join;
    uint64_t arrival = 0;
    uint32_t rank = 0;  // rank of the process; valid from Prepare or Start on
    Millis heard_ms = 0;
    std::optional<Millis> closed_ms;  // when the process's control stream closed; nullopt: it is not closed
    bool has_ended = false;           // whether the process is done or lost
    bool is_lost = false;
    std::optional<Millis> drain_ms;  // when a signal asked the worker to leave; nullopt: it did not, or was answered
    bool must_leave = false;         // whether the worker was told to leave
    bool has_left = false;
    Standing standing = Standing::kTakesPart;
    Millis standing_since_ms = 0;
    uint64_t view = 0;                 // kKnown: the number of the view with its seat
    uint64_t viewed = 0;               // of a server: the newest view that it has acknowledged
    std::optional<uint64_t> restores;  // as in Admit
    // Of a server: what it has said last, with sorted versions; nullopt: nothing since the scheduler came back.
    std::optional<Snapshots> snapshots;
    std::optional<uint64_t> joined_barrier;  // number of the barrier with which it began to take part
    std::optional<uint64_t> steps_at_hold;   // number of steps that the worker had begun when it answered Hold
    uint64_t steps_begun = 0;                // number of steps that the worker has begun; valid once it is done
    std::map<uint32_t, CutLink> cut_links;   // connections that the worker has lost, indexed by the server's rank
    std::optional<uint32_t> unreached;       // as in its last BarrierEnter
    std::vector<Millis> seats_lost_ms;       // when the process has lost a seat, also as earlier incarnations
  };
  struct Barrier {
    BarrierEnter first;                     // the first entry, which the others must match
    uint64_t border = 0;                    // the largest number of a border for which a worker has come
    bool is_torn = false;                   // whether a worker has come in the middle of a step
    bool is_whole = false;                  // whether a worker has made all steps of its epoch
    std::optional<uint64_t> kept;           // the smallest version that BarrierEnter::kept has named
    std::map<uint32_t, uint64_t> bytes_of;  // message sizes of the workers that have entered, indexed by rank
    uint64_t bytes = 0;                     // the sum of the values of bytes_of
    bool is_judged = false;                 // whether the connections that workers miss were counted
    Millis since_ms = 0;
    Millis log_ms = 0;
  };
  // The workers that take part from the border on whose barrier is open.
  struct Entering {
    std::set<uint32_t> ranks;
    std::set<uint32_t> replaced;  // those of them whose worker was lost
    uint64_t view = 0;            // the number of the view in which all of them take part; 0: there are none
  };
  // Two workers that could not connect to each other, in all barriers of this kind since then.
  struct CutPair {
    Millis since_ms = 0;
    uint32_t times = 0;  // in so many barriers
  };
  // A place whose process was lost and that another one must take.
  struct Vacancy {
    Millis since_ms = 0;
    std::string why;
  };
  using Out = std::vector<Effect>;

  void handle(const Join& event, Out& out);
  void handle(const Withdraw& event, Out& out);
  void handle(const Ready& event, Out& out);
  void handle(const StartFailed& event, Out& out);
  void handle(const StreamOpened& event, Out& out);
  void handle(const StreamClosed& event, Out& out);
  void handle(const Heartbeat& event, Out& out);
  void handle(const LinksLost& event, Out& out);
  void handle(const Viewed& event, Out& out);
  void handle(const Snapshots& event, Out& out);
  void handle(const BarrierEnter& event, Out& out);
  void handle(const StopRequested& event, Out& out);
  void handle(const LeaveAsked& event, Out& out);
  void handle(const BorderAsked& event, Out& out);
  void handle(const Held& event, Out& out);
  void handle(const Done& event, Out& out);
  void handle(const Tick& event, Out& out);
  void handle(const GiveUp& event, Out& out);
  void handle(const ProcessEnded& event, Out& out);
  void handle(const Slept& event, Out& out);

  [[nodiscard]] std::optional<Refuse> objection(const Join& join) const;
  [[nodiscard]] std::string objection(const Process& process, const BarrierEnter& event) const;
  [[nodiscard]] std::set<uint32_t> wanted_ranks(Role role) const;
  [[nodiscard]] uint32_t expected(Role role) const;
  [[nodiscard]] uint32_t joined(Role role) const;
  [[nodiscard]] std::vector<Member> missing_members() const;
  void give_ranks();
  void repeat_join(const Join& event, Process& process, Out& out);
  [[nodiscard]] std::vector<Refuse> with_other_records() const;
  void start_if_complete(Out& out);
  void start_if_prepared(Out& out);
  void start(Out& out);
  void fail_start(Code code, const std::string& message, Out& out);

  void fail_job(Code code, const std::string& message, Out& out);
  struct Loss {
    std::string how;            // a text such as "silent for 10100 ms"
    bool is_reachable = false;  // whether the process may still hear of the job's end and sign off
    const char* verb = "was lost";
  };
  void lose(Process& process, const Loss& loss, Out& out);
  [[nodiscard]] bool continues_without(const Process& process) const;
  [[nodiscard]] std::string objection(const LeaveAsked& event, const Process* process) const;
  void let_leave(Process& process, Out& out);
  void look_for_drained(Out& out);
  void publish(Out& out);
  void publish_without(const Process& process, Out& out);
  // A worker that joins the running job (membership_join.cc).
  [[nodiscard]] std::string objection_to_late(const Join& join) const;
  [[nodiscard]] std::string objection_to_return(const Join& join) const;
  [[nodiscard]] std::optional<uint32_t> seat_for(const Join& join) const;
  void take_in(const Join& event, Out& out);
  void admit_known(Out& out);
  void enter_late(Process& process, Out& out);
  void look_for_slow_joins(Out& out);
  void drop(Process& process, const std::string& why, Out& out);
  void drop_all(Out& out);
  [[nodiscard]] bool is_known_to_servers(uint64_t view) const;
  // A server that takes the place of a lost one (membership_servers.cc).
  void lose_server(const Process& process, const std::string& how, Out& out);
  [[nodiscard]] std::optional<uint32_t> place_for_server(const Join& join) const;
  void take_in_server(const Join& event, uint32_t rank, Out& out);
  [[nodiscard]] std::vector<const Process*> servers_to_restore() const;
  [[nodiscard]] std::optional<uint64_t> version_to_restore(const std::vector<const Process*>& servers) const;
  [[nodiscard]] bool have_servers_gone_back(Out& out);
  void restore_servers(Out& out);
  [[nodiscard]] uint64_t first_step(const Process& process) const;
  [[nodiscard]] bool is_at_border() const;
  [[nodiscard]] bool seat_newcomers(Out& out);
  [[nodiscard]] const Process* candidate(uint32_t rank) const;
  [[nodiscard]] std::vector<Member> awaited() const;
  void look_for_vacancies(Out& out);
  void fail_vacant(const Member& member, const std::string& why, Out& out);
  void look_for_forgotten(Out& out);
  void end_leave(const Process& process, Out& out) const;
  void note_lost_seat(Process& process) const;
  [[nodiscard]] bool fits_settings() const;
  void turn_away(Incarnation incarnation, Out& out) const;
  void look_for_lost(Out& out);
  void look_for_cut_links(Out& out);
  // The processes of a role that take part, have not ended, and for which is_meant() is true, sorted.
  [[nodiscard]] std::vector<Member> live(Role role, const std::function<bool(const Process&)>& is_meant) const;
  void judge_cut_link(const Process& worker, uint32_t server, Out& out);
  void note_cut_pairs();
  [[nodiscard]] size_t missed_workers(uint32_t rank) const;
  [[nodiscard]] bool waits_for_cut_pairs(Out& out);
  void look_for_missing(Out& out);
  // Makes every decision that is now possible; called after a process entered, answered or left.
  void settle(Out& out);
  void settle_barrier(Out& out);
  void begin_hold(bool meets, Out& out);
  [[nodiscard]] bool is_before_border() const;
  // Whether the workers add up their gradients in a group that needs every member, because there are no servers.
  [[nodiscard]] bool is_group() const { return settings_.servers == 0; }
  void settle_hold(Out& out);
  void settle_end(Out& out);
  [[nodiscard]] uint32_t stop_set(const Process& process) const;
  [[nodiscard]] std::string stopped_after() const;
  [[nodiscard]] std::optional<Notice> notice_for(const Process& process) const;
  void tell(Role role, Out& out);
  [[nodiscard]] bool all_gone(Role role) const;
  [[nodiscard]] std::vector<uint32_t> gone_workers() const;
  [[nodiscard]] std::vector<uint32_t> lost_workers() const;
  [[nodiscard]] Member member_of(const Process& process) const { return {process.join.role, process.rank}; }
  // Whether the process is a worker on which the others may have to wait.
  [[nodiscard]] static bool is_working(const Process& process) {
    return process.join.role == Role::kWorker && !process.has_ended && process.standing == Standing::kTakesPart;
  }
  [[nodiscard]] bool runs() const {
    return phase_ == Phase::kRunning || phase_ == Phase::kHolding || phase_ == Phase::kStopping;
  }
  Process* known(Incarnation incarnation);
  // The process with this rank that has not ended; null: there is none, or ranks are not given yet.
  Process* live(const Member& member);

  Settings settings_;
  Phase phase_ = Phase::kGathering;
  Millis now_ms_;
  Millis phase_since_ms_;
  Millis log_ms_;  // when to log the missing processes again
  std::map<Incarnation, Process> processes_;
  uint64_t arrivals_ = 0;
  std::optional<Barrier> barrier_;  // the open barrier
  Entering entering_;
  uint64_t barriers_released_ = 0;
  View view_;   // the newest; without seats before the start
  Join first_;  // of worker 0 at the start; late workers must have the same data
  std::map<uint32_t, Vacancy> vacant_, vacant_servers_;  // indexed by rank
  // The numbers of the view that the servers acknowledge with a new report of their snapshots, and of the view with
  // which they go back; 0: it is not published.
  uint64_t report_view_ = 0, restore_view_ = 0;
  std::map<std::pair<uint32_t, uint32_t>, CutPair> cut_pairs_;  // by the two ranks, the lower one first
  bool trains_ = false;                // whether a barrier that begins the training was released
  std::vector<uint32_t> stop_set_of_;  // the stop set of each seat, as in Ready
  // The number of steps of each stop set; filled when all workers have answered Hold. A set that is not in it makes no
  // step before the border.
  std::map<uint32_t, uint64_t> stop_after_;
  uint64_t hold_ = 0;          // number of the newest Hold
  bool meets_ = false;         // whether the newest Hold leads to a border
  bool must_meet_ = false;     // whether the workers are to meet at another border
  std::string stop_waits_by_;  // who has asked to stop before a border was reached; empty: nobody
  bool stop_requested_ = false;
  bool preempted_ = false;  // a worker has stopped because of the request
  StopJob failure_;
};

}  // namespace dtrain::sync::membership
