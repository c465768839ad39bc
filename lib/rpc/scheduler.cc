#include "rpc/scheduler.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <thread>
#include <utility>

#include "base/duration_text.h"
#include "base/mutex.h"
#include "base/printable.h"
#include "base/thread.h"
#include "rpc/channel.h"
#include "rpc/job_tracing.h"
#include "rpc/open_barrier.h"
#include "rpc/pulse_board.h"
#include "rpc/scheduler_messages.h"
#include "rpc/scheduler_service.h"
#include "rpc/status.h"
#include "sync/journal.h"

namespace dtrain::rpc {
namespace {

namespace membership = sync::membership;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick{100};
constexpr std::chrono::milliseconds kSchedulerShutdown{500};
constexpr std::chrono::seconds kPortMax{10};
constexpr size_t kMemoryBase = 256 << 20;
constexpr size_t kMemoryOfMember = 1 << 20;
// The keys of what the scheduler keeps in its state file besides the machine's decisions: a SchedulerState and the last
// BarrierReply.
constexpr const char* kSchedulerKey = "scheduler";
constexpr const char* kBarrierKey = "barrier reply";
// If the scheduler's own tick is late by more than this share (one quarter) of a time limit, the scheduler was not
// running.
constexpr int kLateShare = 4;

// What the scheduler before this one has kept. Nothing: this one begins its job.
struct Kept {
  StateFile::Texts texts = {};
  proto::SchedulerState state = {};
  std::optional<proto::BarrierReply> last_reply = {};
  [[nodiscard]] bool is_there() const { return !texts.empty(); }
};

Result<Kept> read_kept(const SchedulerOptions& options) {
  if (options.state == nullptr || options.state->texts().empty()) return Kept();
  Kept kept{.texts = options.state->texts(), .state = {}, .last_reply = {}};
  const auto state = kept.texts.find(kSchedulerKey), reply = kept.texts.find(kBarrierKey);
  const bool has_reply = reply != kept.texts.end();
  if (has_reply) kept.last_reply.emplace();
  const bool is_whole = state != kept.texts.end() && kept.state.ParseFromString(state->second) &&
                        (!has_reply || kept.last_reply->ParseFromString(reply->second));
  if (is_whole) return kept;
  return fail(Code::kData, "what the last scheduler has kept cannot be read");
}

// The zero of the scheduler's clock, which is that of the scheduler before it on this host.
std::chrono::steady_clock::time_point clock_zero(const Kept& kept) {
  const auto now = std::chrono::steady_clock::now();
  if (!kept.is_there()) return now;
  return std::min(now, std::chrono::steady_clock::time_point(std::chrono::microseconds(kept.state.since_us())));
}

SchedulerOptions with_kept(SchedulerOptions options, const Kept& kept) {
  if (kept.is_there()) options.membership.job_text = kept.state.requested_text();
  return options;
}

// Everything but the outcome and the pulses is used only by the scheduler's own thread. Calls are posted to it, so the
// state machine sees one event after the other, and no lock is held while gRPC is called.
class Driver final : public Scheduler, private SchedulerCalls {
 public:
  Driver(SchedulerOptions options, const Kept& kept, const Log& log)
      : options_(with_kept(std::move(options), kept)),
        log_(log.queued()),
        since_(clock_zero(kept)),
        term_(options_.state == nullptr ? 0 : options_.state->term()),
        machine_(options_.membership),
        incarnation_(kept.is_there() ? kept.state.incarnation() : make_incarnation()),
        barrier_(options_.membership.seats(), term_),
        tracing_(options_.membership.workers, options_.tracer, log_),
        service_(*this, options_.security, log_) {}

  ~Driver() override {
    if (!thread_.joinable()) return;
    service_.close(!is_stale_);
    post([this] { end_all_calls(); });
    listener_.shutdown(std::chrono::system_clock::now() + kSchedulerShutdown);
    // The thread must still run, because it answers the cancelled calls.
    if (!service_.wait_idle()) log_.error("gRPC has not ended all calls; the remaining calls are ignored");
    post([this] { stopped_ = true; });
    thread_.join();
    if (options_.state != nullptr) options_.state->end();
  }

  Result<> begin(const Kept& kept) {
    tracing_.begin(since_);
    if (kept.is_there()) DT_TRY_VOID(continue_with(kept), "continuing the job");
    // The old connections of a scheduler that comes back may hold its port for a moment.
    const auto give_up = Clock::now() + (term_ > 1 ? kPortMax : std::chrono::seconds(0));
    Result<Listener> listener = open_port();
    for (; !listener && Clock::now() < give_up; listener = open_port()) std::this_thread::sleep_for(kTick);
    DT_TRY(listener_, std::move(listener), "starting the scheduler");
    if (options_.state != nullptr) {
      is_keeping_ = true;
      options_.state->begin(
          [this](const Result<uint64_t>& written) { post([this, written] { note_written(written); }); });
    }
    thread_ = std::thread([this] { run(); });
    return {};
  }

  uint16_t port() const override { return listener_.port; }

  std::optional<Result<>> wait(std::chrono::milliseconds limit) override {
    // Here and not on the scheduler's thread, because writing the trace's file may block for any time.
    if (options_.tracer != nullptr) options_.tracer->close(traced_);
    const MutexLock lock(mutex_);
    outcome_changed_.wait_for(mutex_, limit,
                              [this]() DT_REQUIRES(mutex_) { return outcome_.has_value() || !changes_.empty(); });
    return outcome_;
  }

  void request_stop() override {
    post([this] { on(membership::StopRequested{"the scheduler"}); });
  }

  void give_up(const Member& member, const std::string& why) override {
    post([this, member, why] { on(membership::GiveUp{member, why}); });
  }

  void process_ended(const Member& member, const std::string& how) override {
    post([this, member, how] { on(membership::ProcessEnded{member, how}); });
  }

  void request_trace(uint64_t steps, TraceAnswer answer) override {
    post([this, steps, answer = std::move(answer)] {
      const Result<telemetry::TraceRequest> trace = trace_now(steps);
      if (answer) answer(trace);
    });
  }

  std::vector<MemberPulse> pulses() const override { return pulses_.all(); }

  std::vector<MemberChange> take_changes() override {
    const MutexLock lock(mutex_);
    return std::exchange(changes_, {});
  }

 private:
  struct Joining {
    JoinCall* call = nullptr;  // the process's join that waits for an answer; null if there is none
    proto::JoinRequest request;
  };

  // A request that waits until the worker with this rank has left.
  struct Leaving {
    LeaveCall* call = nullptr;
    uint32_t rank = 0;
  };

  Result<Listener> open_port() {
    return listen(
        options_.listen, options_.security, Traffic::kControl, log_,
        [this](grpc::ServerBuilder& builder) { service_.add_to(builder); }, memory_max());
  }

  // The memory that gRPC may use, about twice what is needed for the messages of one barrier, its reply to all members,
  // and their connections.
  [[nodiscard]] size_t memory_max() const {
    const size_t members = size_t{options_.membership.seats()} + options_.membership.servers;
    return kMemoryBase + members * kMemoryOfMember;
  }

  // ---- What the scheduler's thread does, and how other threads pass work to it.

  void post(std::function<void()> task) {
    const MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
    tasks_changed_.notify_one();
  }

  void run() {
    name_thread("scheduler");
    while (!stopped_) {
      if (auto outcome = catching([this] { return turn(); }, "the scheduler"); !outcome) {
        log_.error("{}", outcome.error().line());
        end(std::move(outcome));
      }
    }
  }

  Result<> turn() {
    std::deque<std::function<void()>> tasks;
    {
      const MutexLock lock(mutex_);
      tasks_changed_.wait_for(mutex_, kTick, [this]() DT_REQUIRES(mutex_) { return !tasks_.empty(); });
      tasks.swap(tasks_);
    }
    for (auto& task : tasks) task();
    tick();
    return {};
  }

  // Reports a late tick to the machine before the tick itself: if this thread did not run in time, the silence of the
  // other processes is its own fault.
  void tick() {
    const auto now = Clock::now();
    const auto late = std::chrono::duration_cast<std::chrono::milliseconds>(now - ticked_ - kTick);
    ticked_ = now;
    const membership::Settings& limits = options_.membership;
    if (late.count() > static_cast<int64_t>(std::min(limits.heartbeat_timeout_ms, limits.reconnect_ms)) / kLateShare) {
      if (late.count() > static_cast<int64_t>(limits.heartbeat_timeout_ms) / kLateShare) {
        log_.warn("the scheduler was not running for {}, which does not count as silence of the other processes",
                  duration_text(late));
      }
      on(membership::Slept{static_cast<membership::Millis>(late.count())}, now);
    }
    on(membership::Tick{}, now);
    tracing_.give_up_idle(now);
    traced_ = tracing_.traced();
    if (tracing_.take_news()) send_all_alive();
  }

  [[nodiscard]] membership::Millis millis(Clock::time_point when) const {
    return static_cast<membership::Millis>(
        std::chrono::duration_cast<std::chrono::milliseconds>(when - since_).count());
  }
  void on(const membership::Event& event) { on(event, Clock::now()); }
  // `then`: what to do last, if anything.
  void on(const membership::Event& event, Clock::time_point when, std::function<void()> then = nullptr) {
    std::vector<membership::Effect> effects;
    machine_.on(millis(when), event, effects);
    std::vector<std::function<void()>> held;
    for (membership::Effect& effect : effects) {
      std::visit([this](const auto& e) { prepare(e); }, effect);
      held.emplace_back(
          [this, effect = std::move(effect)] { std::visit([this](const auto& e) { carry_out(e); }, effect); });
    }
    if (then) held.push_back(std::move(then));
    if (is_keeping_) return keep(std::move(held), !std::holds_alternative<membership::StreamOpened>(event));
    for (const std::function<void()>& one : held) one();
  }

  // ---- Keeping what was decided, for a scheduler that comes back.

  // Does what an event has led to as soon as the decisions that explain it are durable.
  void keep(std::vector<std::function<void()>> held, bool may_decide) {
    if (held.empty()) return;
    std::optional<StateFile::Texts> texts = may_decide ? machine_.decisions() : std::nullopt;
    if (texts) texts->merge(std::exchange(own_news_, {}));
    if (auto record = journal_.add(texts, std::move(held))) {
      options_.state->append(record->number, std::move(record->changes));
    }
    do_what_is_durable();
  }
  void do_what_is_durable() {
    while (const std::optional<std::function<void()>> next = journal_.take()) (*next)();
  }
  void note_written(const Result<uint64_t>& written) {
    if (!written && is_keeping_) {
      log_.warn("{}; the job continues, but ends if the scheduler is lost", written.error().message);
      is_keeping_ = false;
    }
    journal_.is_durable(written ? *written : UINT64_MAX);
    if (!is_stale_) do_what_is_durable();
  }
  // Adds what this object knows about the job to the next record.
  void note_own() {
    if (!is_keeping_) return;
    proto::SchedulerState state;
    state.set_incarnation(incarnation_);
    state.set_since_us(std::chrono::duration_cast<std::chrono::microseconds>(since_.time_since_epoch()).count());
    state.set_requested_text(options_.membership.job_text);
    state.set_job_text(job_text_);
    state.mutable_description()->set_job(description_.job);
    state.mutable_description()->set_run_dir(description_.run_dir);
    add_nodes(joined_.nodes, state);
    state.set_records_train(joined_.records_train);
    state.set_records_val(joined_.records_val);
    state.mutable_group_of()->Assign(group_of_.begin(), group_of_.end());
    own_news_[kSchedulerKey] = state.SerializeAsString();
  }

  // Before this object listens: takes over what the scheduler before it has kept.
  Result<> continue_with(const Kept& kept) {
    DT_TRY_VOID(machine_.restore(kept.texts, millis(Clock::now())));
    journal_ = Journal(kept.texts);
    joined_ = {nodes_of(kept.state), kept.state.records_train(), kept.state.records_val()};
    job_text_ = kept.state.job_text();
    description_ = {kept.state.description().job(), kept.state.description().run_dir()};
    complete_ = !job_text_.empty();
    group_of_ = {kept.state.group_of().begin(), kept.state.group_of().end()};
    tracing_.set_groups(group_of_);
    if (kept.last_reply) barrier_.restore(*kept.last_reply);
    if (complete_ && options_.continue_job) DT_TRY_VOID(options_.continue_job(job_text_));
    log_.warn("this scheduler continues the job (term {})", term_);
    for (const Member& member : machine_.vacancies()) note_change(MemberChange::Kind::kAwaited, member);
    return {};
  }

  // Whether another scheduler continues the job, as a process of the job knows that calls this one. Then this one ends,
  // and does not tell the processes that the job is over.
  bool is_replaced(Incarnation caller, uint64_t term) {
    if (term > term_ && !is_stale_ && machine_.member(caller)) {
      is_stale_ = true;
      is_keeping_ = false;
      end(fail(Code::kSchedulerLost, "another scheduler continues this job (its term is {}, that of this one {})", term,
               term_));
    }
    return is_stale_;
  }
  [[nodiscard]] grpc::Status closing() const { return is_stale_ ? scheduler_was_replaced() : job_is_over(); }

  // ---- Incoming calls (SchedulerCalls), on gRPC's threads.

  void on_join(JoinCall* call, const proto::JoinRequest& request, const std::string& peer) override {
    post([this, call, request, peer] { join(call, request, peer); });
  }
  void on_join_cancelled(Incarnation incarnation, uint64_t id) override {
    post([this, incarnation, id] {
      const auto it = joining_.find(incarnation);
      if (it == joining_.end() || it->second.call == nullptr || it->second.call->id() != id) return;
      take_join(incarnation)->refuse(grpc::Status::CANCELLED);
      on(membership::Withdraw{incarnation});
    });
  }
  void on_barrier(BarrierCall* call, const proto::BarrierRequest& request) override {
    post([this, call, request] { barrier(call, request); });
  }
  void on_barrier_cancelled(Incarnation incarnation, uint64_t id) override {
    post([this, incarnation, id] { barrier_.cancel(incarnation, id); });
  }
  void on_done(DoneCall* call, const proto::DoneRequest& request) override {
    post([this, call, request] {
      if (is_replaced(request.incarnation(), request.term())) return call->refuse(closing());
      if (request.has_last()) note(request.incarnation(), request.last());
      if (const auto member = machine_.member(request.incarnation())) pulses_.mark_ended(*member);
      goodbyes_.emplace(call->id(), call);
      on(to_event(request), Clock::now(), [this, id = call->id()] { answer_done(id); });
    });
  }
  void on_describe(DescribeCall* call) override {
    post([this, call] {
      if (outcome_reached_) return call->refuse(failure_status());
      if (!complete_) return call->refuse(to_status({Code::kUsage, "the job has not started yet", {}}));
      proto::JobDescription reply;
      reply.set_job(description_.job);
      reply.set_run_dir(description_.run_dir);
      call->answer(reply);
    });
  }
  void on_leave(LeaveCall* call, const proto::LeaveRequest& request) override {
    post([this, call, request] {
      if (outcome_reached_) return call->refuse(failure_status());
      leaving_.emplace(call->id(), Leaving{call, request.rank()});
      log_.info("asked that worker {} leaves", request.rank());
      on(membership::LeaveAsked{.rank = request.rank()});
    });
  }
  void on_leave_cancelled(uint64_t id) override {
    post([this, id] {
      const auto it = leaving_.find(id);
      if (it == leaving_.end()) return;
      it->second.call->refuse(grpc::Status::CANCELLED);
      leaving_.erase(it);
    });
  }
  void on_stream(const std::shared_ptr<ControlCall>& stream, const proto::Hello& hello) override {
    post([this, stream, hello] { open_stream(stream, hello); });
  }
  void on_up(const std::shared_ptr<ControlCall>& stream, Incarnation incarnation, const proto::Up& up) override {
    post([this, stream, incarnation, up] {
      if (current(incarnation, stream.get())) hear(*stream, incarnation, up);
    });
  }
  void on_stream_end(Incarnation incarnation, const ControlCall* stream) override {
    post([this, incarnation, stream] {
      if (!current(incarnation, stream)) return;
      streams_.erase(incarnation);
      on(membership::StreamClosed{incarnation});
    });
  }

  // ---- The same calls, on the scheduler's thread.

  void join(JoinCall* call, const proto::JoinRequest& request, const std::string& peer) {
    const Incarnation incarnation = request.incarnation();
    if (is_replaced(request.incarnation(), request.term())) return call->refuse(closing());
    if (outcome_reached_) return call->refuse(failure_status());
    // The process repeats its join although the first call still seems open, so the first call is dead.
    if (JoinCall* old = take_join(incarnation)) old->refuse(grpc::Status::CANCELLED);
    joining_[incarnation] = {call, request};
    if (!request.prepared()) log_join(request, peer);
    on(to_event(request));
  }

  void log_join(const proto::JoinRequest& request, const std::string& peer) const {
    log_.info("join role={} rank={} host={} addr={} incarnation={:016x}",
              request.role() == proto::ROLE_WORKER ? "worker" : "server",
              request.has_want_rank() ? std::to_string(request.want_rank()) : "any", printable(request.host()),
              request.address().empty() ? peer : printable(request.address()), request.incarnation());
  }

  void barrier(BarrierCall* call, const proto::BarrierRequest& request) {
    if (is_replaced(request.incarnation(), request.term())) return call->refuse(closing());
    if (outcome_reached_) return call->refuse(failure_status());
    const telemetry::Span span(tracing_.timeline(), "barrier", "scheduler");
    const auto member = machine_.member(request.incarnation());
    barrier_.enter(call, request, member ? std::optional(member->rank) : std::nullopt);
    const auto& new_groups = request.stop_set_of();  // if the list is empty, the stop sets do not change
    if (!new_groups.empty()) {
      group_of_ = {new_groups.begin(), new_groups.end()};
      tracing_.set_groups(group_of_);
      note_own();
    }
    on(to_event(request));
    if (member) return;  // else it has lost its seat, or never had one
    barrier_.refuse(request.incarnation(),
                    to_status({Code::kPeerLost, "this worker does not take part in the job", {}}));
  }

  void open_stream(const std::shared_ptr<ControlCall>& stream, const proto::Hello& hello) {
    if (hello.scheduler() != incarnation_) {
      return stream->close(
          to_status({Code::kSchedulerLost, "the scheduler of another job answers at this address", {}}));
    }
    if (is_replaced(hello.incarnation(), hello.term())) return stream->close(closing());
    const auto old = streams_.find(hello.incarnation());
    if (old != streams_.end()) old->second->close(grpc::Status::CANCELLED);
    streams_[hello.incarnation()] = stream;
    send_alive(*stream);
    on(membership::StreamOpened{hello.incarnation()});
  }

  void hear(ControlCall& stream, Incarnation incarnation, const proto::Up& up) {
    const auto member = machine_.member(incarnation);
    if (up.has_held()) on(membership::Held{incarnation, up.held().number(), up.held().begun()});
    if (up.has_drain() && member) on(membership::LeaveAsked{.rank = member->rank, .by_signal = true});
    if (up.has_border()) on(membership::BorderAsked{incarnation});
    if (up.has_stop()) on(membership::StopRequested{member ? to_text(*member) : "an unknown process"});
    // All processes of the job may send this request at the same time, so a refusal is ignored.
    if (up.has_trace_now()) (void)trace_now(up.trace_now().steps());
    if (!up.has_heartbeat()) return;
    const telemetry::Span span(tracing_.timeline(), "heartbeat", "scheduler");
    send_alive(stream, up.heartbeat().sent_us());
    on(membership::Heartbeat{incarnation});
    on(lost_links(incarnation, up.heartbeat()));
    // Before the view: the report is as of then.
    if (up.heartbeat().has_snapshots()) on(snapshots(incarnation, up.heartbeat()));
    if (up.heartbeat().viewed() > 0) on(membership::Viewed{incarnation, up.heartbeat().viewed()});
    note(incarnation, up.heartbeat());
  }

  // Stores what a process reports about itself, unless a newer report has arrived: the goodbye is a separate call, so
  // it may overtake a heartbeat.
  void note(Incarnation incarnation, const proto::Heartbeat& beat) {
    const auto member = machine_.member(incarnation);
    if (!member || !complete_) return;
    MemberPulse heard{.member = *member, .host = host_of(*member), .pulse = to_pulse(beat), .heard = Clock::now()};
    if (!pulses_.hear(incarnation, beat.sent_us(), std::move(heard))) return;
    if (member->role == Role::kWorker) tracing_.hear(*member, beat.step(), beat.traced(), Clock::now());
  }

  [[nodiscard]] std::string host_of(const Member& member) const {
    for (const Node& node : joined_.nodes) {
      if (node.member == member) return node.host;
    }
    return "";
  }

  void send_alive(ControlCall& stream, int64_t sent_us = 0) const {
    const auto clock = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - since_);
    proto::Down down = alive(sent_us, clock, tracing_.traced(), tracing_.trace());
    down.mutable_alive()->set_term(term_);
    stream.send(std::move(down));
  }
  // Sends Alive, which also carries the newest trace, to all processes.
  void send_all_alive() const {
    for (const auto& [incarnation, stream] : streams_) send_alive(*stream);
  }

  Result<telemetry::TraceRequest> trace_now(uint64_t steps) {
    if (!complete_) return fail(Code::kUnavailable, "the job has not started yet");
    if (outcome_reached_) return fail(Code::kUnavailable, "the job has ended");
    DT_TRY(const telemetry::TraceRequest trace, tracing_.request(steps, Clock::now()));
    send_all_alive();
    return trace;
  }

  bool current(Incarnation incarnation, const ControlCall* stream) const {
    const auto it = streams_.find(incarnation);
    return it != streams_.end() && it->second.get() == stream;
  }

  JoinCall* take_join(Incarnation incarnation) {
    const auto it = joining_.find(incarnation);
    return it == joining_.end() ? nullptr : std::exchange(it->second.call, nullptr);
  }

  void answer_done(uint64_t id) {
    const auto call = goodbyes_.find(id);
    if (call == goodbyes_.end()) return;
    proto::DoneReply reply;
    reply.set_term(term_);
    call->second->answer(reply);
    goodbyes_.erase(call);
  }

  // ---- Carrying out the machine's effects.

  // What is to be kept together with the decision that has this effect.
  void prepare(const membership::Admit& admit) { note_late(admit.node); }
  void prepare(const membership::ReleaseBarrier& release) {
    barrier_.close(release);
    if (is_keeping_) own_news_[kBarrierKey] = barrier_.last_reply().SerializeAsString();
  }
  void prepare(const membership::Prepare& /*effect*/) { note_own(); }
  template <class Effect>
  void prepare(const Effect& /*effect*/) {}

  void carry_out(const membership::Start& start) {
    joined_ = {{}, start.records_train, start.records_val};
    for (const membership::Node& node : start.nodes) {
      const proto::JoinRequest& request = joining_.at(node.incarnation).request;
      joined_.nodes.push_back({node.member, node.incarnation, request.address(), request.host()});
    }
    Result<CompleteJob> job = CompleteJob{.text = options_.membership.job_text};
    if (options_.finish_job) job = options_.finish_job(joined_);
    if (!job) return on(membership::StartFailed{job.error().code, job.error().message});
    job_text_ = std::move(job->text);
    description_ = std::move(job->description);
    group_of_ = std::move(job->group_of);
    tracing_.set_groups(group_of_);
    complete_ = true;
    log_table();
    note_own();
    on(membership::Ready{std::move(job->stop_set_of)});
  }

  void log_table() const {
    std::string text;
    for (const Node& node : joined_.nodes) {
      text += fmt::format(" {}{}{}", to_text(node.member), node.address.empty() ? "" : "=", node.address);
    }
    log_.info("the scheduler is connected to {} workers and {} servers", options_.membership.workers,
              options_.membership.servers);
    log_.verbose(1, "table{}", text);
  }

  void carry_out(const membership::Prepare& prepare) {
    answer_join(prepare.node.incarnation,
                prepare_reply(prepare.node, options_.membership.workers, options_.membership.seats()));
  }

  void carry_out(const membership::Admit& admit) {
    proto::JoinReply reply = admit_reply(admit.node, joined_, job_text_, options_.membership.seats());
    if (admit.restores) reply.set_restores(*admit.restores);
    answer_join(admit.node.incarnation, std::move(reply));
  }

  // Adds a process that joins the running job to the table of nodes, instead of the one that had its place before.
  void note_late(const membership::Node& node) {
    const auto request = joining_.find(node.incarnation);
    if (request == joining_.end() || is_of_start(node)) return;
    std::erase_if(joined_.nodes, [&](const Node& other) { return other.member == node.member; });
    const proto::JoinRequest& asked = request->second.request;
    joined_.nodes.push_back({node.member, node.incarnation, asked.address(), asked.host()});
    std::ranges::sort(joined_.nodes, {}, &Node::member);
    note_own();
  }

  // Whether the process takes part from the start, so that the table of nodes has it.
  [[nodiscard]] bool is_of_start(const membership::Node& node) const {
    return std::ranges::any_of(joined_.nodes, [&](const Node& known) { return known.incarnation == node.incarnation; });
  }

  void answer_join(Incarnation incarnation, proto::JoinReply reply) {
    reply.set_scheduler(incarnation_);
    reply.set_term(term_);
    if (JoinCall* call = take_join(incarnation)) call->answer(reply);
  }

  void carry_out(const membership::Refuse& refusal) {
    log_.warn("refused incarnation={:016x}: {}", refusal.incarnation, refusal.why);
    if (JoinCall* call = take_join(refusal.incarnation)) call->refuse(to_status({refusal.code, refusal.why, {}}));
    joining_.erase(refusal.incarnation);
  }

  void carry_out(const membership::Reject& rejection) {
    const grpc::Status status = to_status({rejection.code, rejection.why, {}});
    barrier_.refuse(rejection.incarnation, status);
    const auto it = streams_.find(rejection.incarnation);
    if (it != streams_.end()) it->second->close(status);
  }

  void carry_out(const membership::Tell& tell) {
    if (const auto* stop = std::get_if<membership::StopJob>(&tell.notice)) {
      barrier_.refuse(tell.to, to_status({stop->code, stop->message, {}}));
    }
    const auto it = streams_.find(tell.to);
    if (it != streams_.end()) it->second->send(to_down(tell.notice));
  }

  void carry_out(const membership::ReleaseBarrier& release) { barrier_.answer(release); }
  void carry_out(const membership::RepeatBarrier& repeat) { barrier_.repeat(repeat.to); }

  void carry_out(const membership::DeclareLost& lost) {
    const bool waits = options_.membership.on_worker_loss == membership::OnWorkerLoss::kWait;
    log_.warn("lost role={} rank={} silent_ms={} policy={}", lost.member.role == Role::kWorker ? "worker" : "server",
              lost.member.rank, lost.silent_ms,
              !lost.continues                              ? "fail"
              : waits || lost.member.role == Role::kServer ? "wait"
                                                           : "shrink");
    if (lost.continues && lost.member.role == Role::kServer) {
      log_.warn(
          "{} was lost: {}; another server must take its place within {} (--rejoin-timeout), as the launcher starts it "
          "(--max-restarts), or by the command with which the server was started",
          to_text(lost.member), lost.why,
          duration_text(std::chrono::milliseconds(options_.membership.rejoin_timeout_ms)));
    } else if (lost.continues && waits) {
      log_.warn(
          "{} was lost: {}; another worker must take its place within {} (--rejoin-timeout), as the launcher starts it "
          "or by: dtrain join --scheduler {} --rank {}",
          to_text(lost.member), lost.why,
          duration_text(std::chrono::milliseconds(options_.membership.rejoin_timeout_ms)),
          net::to_text({options_.host, listener_.port}), lost.member.rank);
    } else if (lost.continues) {
      log_.warn("{} was lost: {}; the job continues without it", to_text(lost.member), lost.why);
    }
    if (lost.continues) note_change(MemberChange::Kind::kLost, lost.member, lost.why);
    pulses_.mark_lost(lost.member);
  }

  void carry_out(const membership::DeclareJoined& joined) {
    log_.info("{} on {} has joined the job", to_text(joined.member), printable(host_of(joined.member)));
    note_change(MemberChange::Kind::kJoined, joined.member);
  }

  void carry_out(const membership::DeclareRestore& restore) {
    if (restore.others_keep) {
      log_.warn(
          "a lost server was replaced by one with a snapshot of version {} or later; the others keep what they have",
          restore.version);
    } else {
      log_.warn("all servers go back to their snapshots of version {}, and all workers with them", restore.version);
    }
  }

  void carry_out(const membership::DeclareDropped& dropped) {
    log_.warn("{}, which was about to join, does not: {}", to_text(dropped.member), dropped.why);
    if (dropped.needs_another) note_change(MemberChange::Kind::kAwaited, dropped.member, dropped.why);
  }

  void note_change(MemberChange::Kind kind, const Member& member, const std::string& why = "") {
    MemberChange change{.kind = kind, .member = member, .host = host_of(member), .why = why};
    for (const MemberPulse& pulse : pulses_.all()) {
      if (pulse.member == member && kind != MemberChange::Kind::kJoined) change.steps = pulse.pulse.progress.step;
    }
    const MutexLock lock(mutex_);
    changes_.push_back(std::move(change));
    outcome_changed_.notify_all();
  }

  void carry_out(const membership::DeclareLeft& left) {
    log_.info("{} has left as asked; the job continues without it", to_text(left.member));
    note_change(MemberChange::Kind::kLeft, left.member);
    pulses_.mark_left(left.member);
    proto::LeaveReply reply;
    reply.set_host(host_of(left.member));
    answer_leaving(left.member.rank, [&](LeaveCall& call) { call.answer(reply); });
  }

  void carry_out(const membership::RefuseLeave& refusal) {
    const grpc::Status status = to_status({Code::kUsage, refusal.why, {}});
    answer_leaving(refusal.rank, [&](LeaveCall& call) { call.refuse(status); });
  }

  template <class Answer>
  void answer_leaving(uint32_t rank, const Answer& answer) {
    std::erase_if(leaving_, [&](const auto& entry) {
      if (entry.second.rank != rank) return false;
      answer(*entry.second.call);
      return true;
    });
  }

  void carry_out(const membership::LogMissing& missing) {
    log_.info("{} waits {}; missing: {}", missing.what, duration_text(std::chrono::milliseconds(missing.waited_ms)),
              to_text(missing.missing));
  }

  void carry_out(const membership::End& ending) {
    Result<> outcome;
    if (ending.failure) outcome = fail(ending.failure->code, "{}", ending.failure->message);
    end(std::move(outcome));
    if (std::exchange(is_keeping_, false)) options_.state->remove();
  }

  void end(Result<> outcome) {
    outcome_reached_ = true;
    {
      const MutexLock lock(mutex_);
      if (!outcome_) outcome_ = std::move(outcome);
      outcome_changed_.notify_all();
    }
    refuse_leaving(failure_status());
  }
  void refuse_leaving(const grpc::Status& status) {
    for (const auto& [id, leaving] : std::exchange(leaving_, {})) leaving.call->refuse(status);
  }

  grpc::Status failure_status() const {
    const MutexLock lock(mutex_);
    return outcome_ && !*outcome_ ? to_status(outcome_->error()) : job_is_over();
  }

  void end_all_calls() {
    outcome_reached_ = true;
    for (auto& [incarnation, joining] : joining_) {
      if (JoinCall* call = std::exchange(joining.call, nullptr)) call->refuse(closing());
    }
    for (const auto& [id, call] : std::exchange(goodbyes_, {})) call->refuse(closing());
    barrier_.refuse_all(closing());
    refuse_leaving(closing());
    for (const auto& [incarnation, stream] : std::exchange(streams_, {})) stream->close(closing());
  }

  SchedulerOptions options_;
  Log log_;
  const Clock::time_point since_;
  Clock::time_point ticked_ = Clock::now();
  const uint64_t term_;  // 0: the scheduler does not come back

  membership::Machine machine_;
  Incarnation incarnation_;
  std::map<Incarnation, Joining> joining_;
  std::map<Incarnation, std::shared_ptr<ControlCall>> streams_;
  std::map<uint64_t, Leaving> leaving_;     // indexed by LeaveCall::id()
  std::map<uint64_t, DoneCall*> goodbyes_;  // that are not answered yet, indexed by DoneCall::id()
  using Journal = sync::Journal<std::function<void()>>;
  Journal journal_;
  StateFile::Texts own_news_;           // of this object, for the next record
  bool is_keeping_ = false;             // whether decisions are kept in options_.state
  std::atomic<bool> is_stale_ = false;  // whether another scheduler continues the job
  OpenBarrier barrier_;
  JobTracing tracing_;
  std::atomic<uint64_t> traced_ = 0;  // tracing_.traced(), for the thread that calls wait()
  PulseBoard pulses_;
  Joined joined_;
  std::string job_text_;
  JobDescription description_;
  std::vector<uint32_t> group_of_;  // the group of each worker, as in CompleteJob
  bool complete_ = false;           // whether job_text_ is complete; no process trains before that
  bool outcome_reached_ = false;
  bool stopped_ = false;

  mutable Mutex mutex_;
  ConditionVariable tasks_changed_;
  ConditionVariable outcome_changed_;
  std::deque<std::function<void()>> tasks_ DT_GUARDED_BY(mutex_);
  std::vector<MemberChange> changes_ DT_GUARDED_BY(mutex_);  // that take_changes() has not returned yet
  std::optional<Result<>> outcome_ DT_GUARDED_BY(mutex_);

  SchedulerService service_;
  Listener listener_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Scheduler>> Scheduler::start(SchedulerOptions options, const Log& log) {
  DT_TRY(const Kept kept, read_kept(options));
  auto driver = std::make_unique<Driver>(std::move(options), kept, log);
  DT_TRY_VOID(driver->begin(kept));
  return std::unique_ptr<Scheduler>(std::move(driver));
}

}  // namespace dtrain::rpc
