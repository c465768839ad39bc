#include "rpc/control_client.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/mutex.h"
#include "rpc/certificates.h"
#include "rpc/channel.h"
#include "rpc/contribution.h"
#include "rpc/control_line.h"
#include "rpc/scheduler_messages.h"
#include "rpc/status.h"
#include "rpc/step_gate.h"
#include "scheduler.grpc.pb.h"

namespace dtrain::rpc {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kRetryFirst{100};
constexpr milliseconds kRetryLast{1'000};
// Added to the deadline of a join, so that the scheduler's own limit passes first: its error names the missing
// processes.
constexpr milliseconds kStartSlack{10'000};
constexpr milliseconds kGoodbye{2'000};  // limit on repeating the goodbye once the job is over
constexpr milliseconds kGoodbyeCall{1'000};
constexpr auto kNever = Clock::time_point::max();
// The limit of calls that wait for other processes: none. Heartbeats notice if one of these or the scheduler is lost,
// and end the call.
constexpr std::optional<milliseconds> kUnlimited;

proto::JoinRequest to_proto(const JoinRequest& request, Incarnation incarnation) {
  proto::JoinRequest message;
  message.set_role(request.role == Role::kWorker ? proto::ROLE_WORKER : proto::ROLE_SERVER);
  if (request.want_rank) message.set_want_rank(*request.want_rank);
  message.set_incarnation(incarnation);
  message.set_host(request.host);
  message.set_address(request.address);
  message.set_job_text(request.job_text);
  message.set_records_train(request.records_train);
  message.set_records_val(request.records_val);
  message.set_lacks_index(request.lacks_index);
  message.set_data_hash(request.data_hash);
  message.set_is_late(request.is_late);
  message.set_is_launched(request.is_launched);
  message.set_formerly(request.formerly);
  return message;
}

JoinReply from_proto(const proto::JoinReply& message) {
  JoinReply reply;
  reply.rank = message.rank();
  reply.seats = message.seats();
  if (message.has_restores()) reply.restores = message.restores();
  reply.job_text = message.job_text();
  reply.records_train = message.records_train();
  reply.records_val = message.records_val();
  for (const proto::Node& node : message.nodes()) {
    const Role role = node.role() == proto::ROLE_WORKER ? Role::kWorker : Role::kServer;
    reply.nodes.push_back({{role, node.rank()}, node.incarnation(), node.address()});
  }
  return reply;
}

std::vector<uint32_t> empty_seats(const proto::JoinReply& reply) {
  std::set<uint32_t> empty;
  for (uint32_t rank = 0; rank < reply.seats(); rank++) empty.insert(rank);
  for (const proto::Node& node : reply.nodes()) {
    if (node.role() == proto::ROLE_WORKER) empty.erase(node.rank());
  }
  return {empty.begin(), empty.end()};
}

class GrpcControlClient final : public ControlClient {
 public:
  GrpcControlClient(ControlOptions options, Waits& waits, Log log)
      : options_(std::move(options)),
        waits_(waits),
        log_(std::move(log)),
        gate_(waits),
        channel_(make_channel(options_.scheduler, options_.security, Traffic::kControl, {}, options_.fail_points)),
        stub_(proto::Scheduler::NewStub(channel_)),
        line_(options_, channel_, gate_, waits_, [this](const Error& error) { on_line_failure(error); }) {}

  Result<JoinReply> join(const JoinRequest& request, const Prepare& prepare) override {
    proto::JoinRequest message = to_proto(request, options_.incarnation);
    DT_TRY(proto::JoinReply reply, first_join(message));
    if (reply.prepare()) {
      Records records;
      if (prepare) {
        DT_TRY(records, prepare());
      }
      message.set_records_train(records.train);
      message.set_records_val(records.val);
      message.set_data_hash(records.hash);
      message.set_prepared(true);
      DT_TRY(reply, second_join(message));
    }
    return from_proto(reply);
  }

  void on_failure(std::function<void(const Error&)> callback) override { callback_ = std::move(callback); }

  void request_stop() override {
    const MutexLock lock(mutex_);
    stop_requested_ = true;
    if (takes_part_) return line_.request_stop();
    for (grpc::ClientContext* context : open_calls_) context->TryCancel();
    changed_.notify_all();
  }

  void request_leave() override {
    {
      const MutexLock lock(mutex_);
      if (takes_part_) return line_.request_leave();
    }
    request_stop();
  }

  void request_trace(uint64_t steps) override { line_.request_trace(steps); }

  uint32_t rank() const override {
    const MutexLock lock(mutex_);
    return rank_;
  }
  uint32_t workers() const override {
    const MutexLock lock(mutex_);
    return workers_;
  }
  std::vector<uint32_t> live() const override {
    std::vector<uint32_t> ranks = Coordinator::live();
    std::erase_if(ranks, [this](uint32_t rank) { return std::ranges::binary_search(gone_, rank); });
    return ranks;
  }
  std::vector<uint32_t> newcomers() const override { return newcomers_; }
  std::vector<uint32_t> lost() const override { return lost_; }
  std::optional<uint64_t> restored() const override { return restored_; }
  Result<std::vector<job::Contribution>> take_part() override {
    proto::BarrierRequest request;
    request.set_joins(true);
    DT_TRY(const proto::BarrierReply reply, enter_barrier("the border with which this worker joins", request));
    barriers_ = reply.seq() + 1;
    if (options_.seat != nullptr) options_.seat->enter();
    {
      const MutexLock lock(mutex_);
      takes_part_ = true;
      if (stop_requested_) line_.request_leave();
    }
    return contributions_of(reply, "the border with which this worker joins");
  }
  bool has_lost_seat() const override { return options_.seat != nullptr && options_.seat->is_lost(); }
  Result<bool> may_begin(uint64_t step) override { return gate_.may_begin(step); }
  bool leaves() const override { return gate_.has_left(); }
  uint64_t border() const override { return gate_.border(); }
  void request_border() override { line_.request_border(); }
  void cannot_reach(uint32_t rank) override { unreached_ = rank; }
  void pass_border(uint64_t number) override {
    gate_.pass_border(number);
    line_.pass_border();
  }
  Result<> await_border() override { return gate_.await_border(); }
  Result<> begin_training(uint64_t step) override {
    gate_.go_to(step);
    proto::BarrierRequest request;
    request.set_begins_training(true);
    DT_TRY_VOID(enter_barrier("the initial weights", std::move(request)));
    return {};
  }

  Result<std::vector<double>> sum(const std::string& name, std::span<const double> values) override {
    proto::BarrierRequest request;
    request.mutable_values()->Assign(values.begin(), values.end());
    DT_TRY(const proto::BarrierReply reply, enter_barrier(name, std::move(request)));
    return std::vector<double>(reply.sums().begin(), reply.sums().end());
  }

  Result<std::vector<job::Contribution>> gather(const std::string& name, job::Contribution own,
                                                std::span<const uint32_t> stop_set_of) override {
    proto::BarrierRequest request;
    *request.mutable_contribution() = rpc::to_proto(own);
    request.mutable_stop_set_of()->Assign(stop_set_of.begin(), stop_set_of.end());
    if (const size_t bytes = request.contribution().ByteSizeLong(); bytes > job::kContributionBytesMax) {
      return fail(Code::kUsage, "barrier '{}': this worker's message has {} bytes, more than the limit of {}", name,
                  bytes, job::kContributionBytesMax);
    }
    DT_TRY(const proto::BarrierReply reply, enter_barrier(name, std::move(request)));
    return contributions_of(reply, name);
  }

  void report(const job::WorkerProgress& progress) override { line_.report(progress); }
  void fail_with(const Error& error) override { line_.fail(error); }
  void acknowledge_view(uint64_t number) override { line_.acknowledge_view(number); }
  void report_snapshots(SnapshotReport report) override { line_.report_snapshots(std::move(report)); }
  void watch_views(std::function<void(const sync::View&)> callback) override { line_.watch_views(std::move(callback)); }
  void report_lost_links(std::vector<LostLink> links) override { line_.report_lost_links(std::move(links)); }
  Result<std::optional<sync::View>> wait_view() override { return line_.wait_view(); }
  Result<> state() const override {
    if (auto error = line_.error()) return tl::unexpected(std::move(*error));
    return {};
  }

  void done(const Result<>& outcome) override {
    {
      const MutexLock lock(mutex_);
      if (!std::exchange(joined_, false)) return;
    }
    if (!is_scheduler_lost() && !has_lost_seat()) say_goodbye(outcome);
    line_.end();
  }

 private:
  // A blocking call, registered in open_calls_ so that a failure or a signal can cancel it.
  class OpenCall {
   public:
    explicit OpenCall(GrpcControlClient& client) : client_(client) {
      sign(context_, client.options_.security);
      const MutexLock lock(client_.mutex_);
      client_.open_calls_.insert(&context_);
      if (client_.why_not()) context_.TryCancel();  // in case the failure or the signal came before the registration
    }
    ~OpenCall() {
      const MutexLock lock(client_.mutex_);
      client_.open_calls_.erase(&context_);
    }
    OpenCall(const OpenCall&) = delete;
    OpenCall& operator=(const OpenCall&) = delete;
    grpc::ClientContext& context() { return context_; }

   private:
    GrpcControlClient& client_;
    grpc::ClientContext context_;
  };

  // Why calls must end: the job's error, or a signal that came before the join was answered. Nullopt if they need not.
  std::optional<Error> why_not() const DT_REQUIRES(mutex_) {
    if (auto error = line_.error()) return error;
    if (stop_requested_ && !takes_part_) {
      return Error{Code::kPreempted, "asked to stop before this process took part in the job", {}};
    }
    return std::nullopt;
  }

  // Whether to repeat the call that began at `began` and ended with `status`. If the scheduler cannot be reached, calls
  // are repeated until `give_up`. Other statuses may come from a broken connection or from a permanent fault; then
  // calls are repeated until they have failed in succession for scheduler_grace. `failing_since` is when the first of
  // these failures happened, or kNever.
  bool may_call_again(const grpc::Status& status, Clock::time_point began, Clock::time_point give_up,
                      Clock::time_point& failing_since) const {
    const auto now = Clock::now();
    if (!is_worth_retrying(status) || status.error_code() == grpc::DEADLINE_EXCEEDED || now >= give_up) return false;
    if (from_status(status).code == Code::kUnavailable) {
      failing_since = kNever;
      return true;
    }
    if (failing_since == kNever || now - began > options_.scheduler_grace) failing_since = now;
    return now - failing_since < options_.scheduler_grace;
  }

  // Repeats a call, each time with the deadline `limit`, until there is a reply or a final error (may_call_again).
  template <class Reply, class Call>
  Result<Reply> repeat(std::optional<milliseconds> limit, Clock::time_point give_up, const Call& call) {
    milliseconds pause = kRetryFirst;
    Clock::time_point failing_since = kNever;
    while (true) {
      const auto began = Clock::now();
      Reply reply;
      grpc::Status status;
      {
        OpenCall open(*this);
        if (limit) open.context().set_deadline(std::chrono::system_clock::now() + *limit);
        status = call(open.context(), reply);
      }
      if (status.ok() && line_.accept(reply.term())) return reply;
      if (status.ok()) status = scheduler_was_replaced();
      const MutexLock lock(mutex_);
      if (auto error = why_not()) return tl::unexpected(std::move(*error));
      if (!may_call_again(status, began, give_up, failing_since)) return tl::unexpected(from_status(status));
      changed_.wait_until(mutex_, std::min(Clock::now() + pause, give_up),
                          [this]() DT_REQUIRES(mutex_) { return why_not().has_value(); });
      pause = std::min(2 * pause, kRetryLast);
    }
  }

  // The workers' messages of an all-gather, in the order of ranks. Those that are gone or join with it may lack one.
  Result<std::vector<job::Contribution>> contributions_of(const proto::BarrierReply& reply,
                                                          const std::string& name) const {
    std::vector<job::Contribution> all;
    size_t bytes_of_all = 0, seen = 0;
    for (const proto::Contribution& message : reply.contributions()) {
      bytes_of_all += message.ByteSizeLong();
      if (bytes_of_all > job::kGatherBytesMax) {
        return fail(Code::kInternal, "barrier '{}': the workers' messages have more than {} bytes", name,
                    job::kGatherBytesMax);
      }
      const auto rank = static_cast<uint32_t>(seen++);
      std::optional<job::Contribution> one = rpc::from_proto(message);
      if (one) all.push_back(std::move(*one));
      const bool may_lack =
          std::ranges::binary_search(reply.gone(), rank) || std::ranges::binary_search(reply.joined(), rank);
      if (!one && !may_lack) return fail(Code::kInternal, "barrier '{}': worker {} sent no message", name, rank);
    }
    if (seen == workers()) return all;
    return fail(Code::kInternal, "barrier '{}' returned the messages of {} workers instead of {}", name, seen,
                workers());
  }

  Result<proto::BarrierReply> enter_barrier(const std::string& name, proto::BarrierRequest request) {
    request.set_incarnation(options_.incarnation);
    request.set_name(name);
    request.set_seq(barriers_);
    if (unreached_) request.set_unreached(*unreached_);
    const Waits::Wait wait(waits_, [name] { return fmt::format("barrier '{}'", name); });
    const auto call = [&](grpc::ClientContext& context, proto::BarrierReply& reply) {
      request.set_term(line_.term());
      return stub_->Barrier(&context, request, &reply);
    };
    auto reply = repeat<proto::BarrierReply>(kUnlimited, kNever, call);
    if (!reply) return tl::unexpected(std::move(reply).error().with(fmt::format("in barrier '{}'", name)));
    barriers_++;
    unreached_.reset();
    gone_.assign(reply->gone().begin(), reply->gone().end());
    newcomers_.assign(reply->joined().begin(), reply->joined().end());
    lost_.assign(reply->lost().begin(), reply->lost().end());
    if (reply->passed() > 0) pass_border(reply->passed());
    restored_.reset();
    if (reply->has_restored()) restored_ = reply->restored();
    if (reply->view() > 0) DT_TRY_VOID(line_.wait_for_view(reply->view()));
    return std::move(*reply);
  }

  // Sends the first join. Once it is answered, the process is a member of the job.
  Result<proto::JoinReply> first_join(const proto::JoinRequest& request) {
    const char* whom = request.is_late() ? "the job to admit this worker" : "all processes to join";
    const Waits::Wait wait(waits_, [this, whom] { return fmt::format("{} at {}", whom, to_text(options_.scheduler)); });
    Result<proto::JoinReply> answer = call_join(request);
    if (!answer && options_.seat != nullptr) options_.seat->refuse();
    DT_TRY(proto::JoinReply reply, std::move(answer), "joining the job at {}", to_text(options_.scheduler));
    if (options_.seat != nullptr) options_.seat->admit(reply.rank(), !request.is_late());
    {
      const MutexLock lock(mutex_);
      rank_ = reply.rank();
      workers_ = reply.seats();
      joined_ = true;
      takes_part_ = !request.is_late();
      if (stop_requested_ && takes_part_) line_.request_stop();
    }
    gone_ = empty_seats(reply);
    line_.start(reply.scheduler());
    return reply;
  }

  // Sends the second join. It has no time limit, because indexing may take any time.
  Result<proto::JoinReply> second_join(proto::JoinRequest& request) {
    const Waits::Wait wait(waits_, [] { return std::string("all workers to open their data"); });
    const auto call = [&](grpc::ClientContext& context, proto::JoinReply& reply) {
      request.set_term(line_.term());
      return stub_->Join(&context, request, &reply);
    };
    return repeat<proto::JoinReply>(kUnlimited, kNever, call);
  }

  Result<proto::JoinReply> call_join(const proto::JoinRequest& request) {
    // The scheduler of a running job is there, or comes back within its grace.
    const milliseconds patience = request.is_late() ? options_.scheduler_grace : options_.start_timeout;
    const auto give_up = Clock::now() + patience;
    DT_TRY(const bool is_found, find_scheduler(give_up));
    const auto call = [&](grpc::ClientContext& context, proto::JoinReply& reply) {
      // Until the scheduler has been found, the call must fail at once, because only a failed call reports gRPC's
      // reason.
      context.set_wait_for_ready(is_found);
      return stub_->Join(&context, request, &reply);
    };
    auto reply = repeat<proto::JoinReply>(options_.start_timeout + kStartSlack, give_up, call);
    if (reply || reply.error().code != Code::kUnavailable) return reply;
    return no_answer(options_.scheduler, patience, reply.error().message);
  }

  // Waits for a connection to the scheduler; returns false if there is none at `give_up`. This is separate from the
  // join, which takes until all other processes have joined.
  Result<bool> find_scheduler(Clock::time_point give_up) {
    auto look_at = Clock::now() + kLookAtTls;
    while (!channel_->WaitForConnected(std::chrono::system_clock::now() + kRetryFirst)) {
      if (Clock::now() >= look_at) {
        const auto refusal = tls_refusal(options_.scheduler, options_.security.tls, kLookAtTls);
        if (refusal) return fail(Code::kDenied, "{}", *refusal);
        look_at = Clock::now() + kLookAtTls;
      }
      const MutexLock lock(mutex_);
      if (auto error = why_not()) return tl::unexpected(std::move(*error));
      if (Clock::now() >= give_up) return false;
    }
    return true;
  }

  void say_goodbye(const Result<>& outcome) {
    proto::DoneRequest request;
    request.set_incarnation(options_.incarnation);
    request.set_steps_begun(gate_.steps_begun());
    request.set_has_left(gate_.has_left());
    request.set_term(line_.term());
    if (!outcome) *request.mutable_failure() = to_failure(outcome.error());
    *request.mutable_last() = line_.last_heartbeat();
    const Waits::Wait wait(waits_, [] { return std::string("the scheduler to acknowledge that this process ends"); });
    const auto began = Clock::now();
    while (true) {
      const grpc::Status status = call_done(request);
      if (status.ok() || is_job_over(status)) return;
      const auto limit = line_.is_job_over() ? kGoodbye : std::max(kGoodbye, options_.scheduler_grace);
      if (Clock::now() - began >= limit || !is_worth_retrying(status) || is_scheduler_lost()) {
        return log_.verbose(1, "the scheduler did not acknowledge that this process ends: {}", status.error_message());
      }
      const MutexLock lock(mutex_);
      changed_.wait_for(mutex_, kRetryFirst);
    }
  }

  grpc::Status call_done(const proto::DoneRequest& request) {
    grpc::ClientContext context;
    sign(context, options_.security);
    context.set_deadline(std::chrono::system_clock::now() + kGoodbyeCall);
    proto::DoneReply reply;
    grpc::Status status = stub_->Done(&context, request, &reply);
    if (!status.ok() || line_.accept(reply.term())) return status;
    return scheduler_was_replaced();
  }

  bool is_scheduler_lost() const {
    const std::optional<Error> error = line_.error();
    return error && error->code == Code::kSchedulerLost;
  }

  // Runs on the heartbeat thread.
  void on_line_failure(const Error& error) {
    gate_.fail(error);
    {
      const MutexLock lock(mutex_);
      for (grpc::ClientContext* context : open_calls_) context->TryCancel();
      changed_.notify_all();
    }
    if (callback_) callback_(error);
  }

  ControlOptions options_;
  Waits& waits_;
  Log log_;
  StepGate gate_;
  uint64_t barriers_ = 0;              // barriers that the calling thread has passed
  std::vector<uint32_t> gone_;         // the ranks for which nobody took part when the last of them ended
  std::vector<uint32_t> newcomers_;    // the ranks of the workers that have joined with the last of them
  std::vector<uint32_t> lost_;         // the ranks that were lost when the last of them ended; see Coordinator::lost()
  std::optional<uint64_t> restored_;   // the version to which the servers went back before the last of them ended
  std::optional<uint32_t> unreached_;  // the last argument of cannot_reach() since then
  std::function<void(const Error&)> callback_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  uint32_t rank_ DT_GUARDED_BY(mutex_) = 0;
  uint32_t workers_ DT_GUARDED_BY(mutex_) = 0;
  bool joined_ DT_GUARDED_BY(mutex_) = false;
  bool takes_part_ DT_GUARDED_BY(mutex_) = false;  // false while a worker that joins the running job is not live
  bool stop_requested_ DT_GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> open_calls_ DT_GUARDED_BY(mutex_);

  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<proto::Scheduler::Stub> stub_;
  ControlLine line_;  // the last member, so that its thread ends before the others are destroyed
};

}  // namespace

std::unique_ptr<ControlClient> ControlClient::create(ControlOptions options, Waits& waits, Log log) {
  return std::make_unique<GrpcControlClient>(std::move(options), waits, std::move(log));
}

}  // namespace dtrain::rpc
