#include "rpc/scheduler_messages.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "base/overloaded.h"
#include "base/printable.h"
#include "rpc/contribution.h"
#include "rpc/status.h"

namespace dtrain::rpc {

namespace membership = sync::membership;

Role role_of(proto::Role role) {
  return role == proto::ROLE_WORKER ? Role::kWorker : Role::kServer;
}

membership::Join to_event(const proto::JoinRequest& request) {
  membership::Join event;
  event.incarnation = request.incarnation();
  event.role = role_of(request.role());
  if (request.has_want_rank()) event.want_rank = request.want_rank();
  event.job_text = request.job_text();
  event.records_train = request.records_train();
  event.records_val = request.records_val();
  event.lacks_index = request.lacks_index();
  event.prepared = request.prepared();
  event.is_late = request.is_late();
  event.is_launched = request.is_launched();
  event.data_hash = request.data_hash();
  event.formerly = request.formerly();
  if (event.role == Role::kServer) event.address = request.address();
  return event;
}

membership::BarrierEnter to_event(const proto::BarrierRequest& request) {
  const bool is_gather = request.has_contribution();
  return {.incarnation = request.incarnation(),
          .name = request.name(),
          .seq = request.seq(),
          .content = is_gather ? fmt::format("a message '{}'", kind_of(request.contribution()))
                               : fmt::format("{} numbers", request.values_size()),
          .bytes = is_gather ? request.contribution().ByteSizeLong() : 0,
          .stop_set_of = {request.stop_set_of().begin(), request.stop_set_of().end()},
          .border = request.contribution().epoch_end().border(),
          .begins_training = request.begins_training(),
          .joins = request.joins(),
          .is_torn = request.contribution().epoch_end().is_torn(),
          .is_whole = request.contribution().epoch_end().is_whole(),
          .kept = kept_of(request.contribution().epoch_end()),
          .unreached = request.has_unreached() ? std::optional(request.unreached()) : std::nullopt};
}

membership::Done to_event(const proto::DoneRequest& request) {
  membership::Done done{
      .incarnation = request.incarnation(), .steps_begun = request.steps_begun(), .has_left = request.has_left()};
  if (request.has_failure()) {
    const Error error = from_failure(request.failure());
    done.failure = error.code;
    done.message = error.message;
  }
  return done;
}

membership::LinksLost lost_links(Incarnation worker, const proto::Heartbeat& beat) {
  membership::LinksLost event{worker, {}};
  for (const proto::LostLink& link : beat.lost_links()) {
    event.links.push_back({link.server(), link.lost_ms(), printable(link.why())});
  }
  return event;
}

membership::Snapshots snapshots(Incarnation server, const proto::Heartbeat& beat) {
  const auto& versions = beat.snapshots().versions();
  return {server, {versions.begin(), versions.end()}, beat.snapshots().needs_none()};
}

namespace {

constexpr size_t kSamplesMax = 10'000;  // limit on the metric samples of one process
constexpr size_t kLabelBytesMax = 200;

}  // namespace

// Adds the samples of the snapshot, up to kSamplesMax. Only many levels of --log-time-to produce more.
void add_metrics(const telemetry::Snapshot& snapshot, proto::Heartbeat& to) {
  for (const telemetry::Sample& sample : std::span(snapshot).first(std::min(snapshot.size(), kSamplesMax))) {
    proto::MetricSample& one = *to.add_metrics();
    one.set_name(std::string(telemetry::info(sample.metric).name));
    one.set_label(sample.label);
    one.set_value(sample.value);
    one.mutable_counts()->Assign(sample.counts.begin(), sample.counts.end());
  }
}

namespace {

// Skips samples that this build does not know and samples that are malformed.
telemetry::Snapshot to_snapshot(const proto::Heartbeat& beat) {
  telemetry::Snapshot snapshot;
  if (static_cast<size_t>(beat.metrics_size()) > kSamplesMax) return snapshot;
  for (const proto::MetricSample& sample : beat.metrics()) {
    const std::optional<telemetry::Metric> metric = telemetry::find_metric(sample.name());
    if (!metric || sample.label().size() > kLabelBytesMax) continue;
    const telemetry::MetricInfo& info = telemetry::info(*metric);
    const bool is_histogram = info.kind == telemetry::Kind::kHistogram;
    const size_t counts = is_histogram ? info.bounds.size() + 1 : 0;
    if (static_cast<size_t>(sample.counts_size()) != counts || info.label.empty() != sample.label().empty()) continue;
    snapshot.push_back({*metric, sample.label(), sample.value(), {sample.counts().begin(), sample.counts().end()}});
  }
  return snapshot;
}

job::Quality to_quality(const proto::Quality& quality) {
  return {quality.loss(), quality.accuracy()};
}

}  // namespace

Pulse to_pulse(const proto::Heartbeat& beat) {
  return {
      .progress = {.step = beat.step(),
                   .samples_per_s = beat.samples_per_s(),
                   .wait_data_share = beat.wait_data_share(),
                   .wait_network_share = beat.wait_network_share(),
                   .data_stage = job::data_stage(beat.data_stage()),
                   .checkpoint_s = beat.checkpoint_s(),
                   .validated = beat.has_validated() ? std::optional(beat.validated()) : std::nullopt,
                   .training = beat.has_training() ? std::optional(to_quality(beat.training())) : std::nullopt,
                   .validation = beat.has_validation() ? std::optional(to_quality(beat.validation())) : std::nullopt},
      .wait = beat.wait(),
      .wait_s = beat.wait_s(),
      .is_own_work = beat.is_own_work(),
      .metrics = to_snapshot(beat),
      .report_age_s = beat.report_age_s()};
}

namespace {

proto::Seat::State to_proto(sync::Seat::State state) {
  switch (state) {
    case sync::Seat::State::kLive: return proto::Seat::LIVE;
    case sync::Seat::State::kJoining: return proto::Seat::JOINING;
    case sync::Seat::State::kEmpty: break;
  }
  return proto::Seat::EMPTY;
}

sync::Seat::State from_proto(proto::Seat::State state) {
  if (state == proto::Seat::LIVE) return sync::Seat::State::kLive;
  return state == proto::Seat::JOINING ? sync::Seat::State::kJoining : sync::Seat::State::kEmpty;
}

proto::View to_proto(const sync::View& view) {
  proto::View message;
  message.set_number(view.number);
  for (const sync::Seat& seat : view.workers) {
    proto::Seat& one = *message.add_workers();
    one.set_incarnation(seat.incarnation);
    one.set_state(to_proto(seat.state));
    one.set_begin(seat.begin);
  }
  for (const sync::ServerSeat& seat : view.servers) {
    proto::ServerSeat& one = *message.add_servers();
    one.set_incarnation(seat.incarnation);
    one.set_is_lost(!seat.is_live);
    one.set_address(seat.address);
  }
  message.set_restores(view.restores);
  message.set_restored(view.restored);
  message.set_must_restore(view.must_restore);
  return message;
}

}  // namespace

proto::Down to_down(const membership::Notice& notice) {
  proto::Down down;
  std::visit(
      Overloaded{[&](const membership::Hold& n) { down.mutable_hold()->set_number(n.number); },
                 [&](const membership::StopAfter& n) {
                   down.mutable_stop_after()->set_number(n.number);
                   down.mutable_stop_after()->set_steps(n.steps);
                   down.mutable_stop_after()->set_meets(n.meets);
                 },
                 [&](const membership::LeaveJob& leave) { down.mutable_leave()->set_at_border(leave.at_border); },
                 [&](const membership::StopJob& n) {
                   *down.mutable_stop_job() = to_failure({n.code, n.message, {}});
                 },
                 [&](const membership::Finish& n) { down.mutable_finish()->set_preempted(n.preempted); },
                 [&](const sync::View& view) { *down.mutable_view() = to_proto(view); }},
      notice);
  return down;
}

sync::View to_view(const proto::View& message) {
  sync::View view{.number = message.number(),
                  .restores = message.restores(),
                  .restored = message.restored(),
                  .must_restore = message.must_restore()};
  for (const proto::Seat& seat : message.workers()) {
    view.workers.push_back({seat.incarnation(), from_proto(seat.state()), seat.begin()});
  }
  for (const proto::ServerSeat& seat : message.servers()) {
    view.servers.push_back({seat.incarnation(), !seat.is_lost(), seat.address()});
  }
  return view;
}

proto::Down alive(int64_t sent_us, std::chrono::microseconds clock, uint64_t traced,
                  const telemetry::TraceRequest* trace) {
  proto::Down down;
  proto::Alive& message = *down.mutable_alive();
  message.set_sent_us(sent_us);
  message.set_clock_us(clock.count());
  message.set_traced(traced);
  if (trace != nullptr) {
    message.mutable_trace()->set_number(trace->number);
    message.mutable_trace()->mutable_first_steps()->Assign(trace->first_steps.begin(), trace->first_steps.end());
    message.mutable_trace()->set_steps(trace->steps);
  }
  return down;
}

proto::JoinReply prepare_reply(const membership::Node& to, uint32_t workers, uint32_t seats) {
  proto::JoinReply reply;
  reply.set_rank(to.member.rank);
  reply.set_seats(seats);
  reply.set_prepare(true);
  for (uint32_t rank = 0; rank < workers; rank++) {
    proto::Node* worker = reply.add_nodes();
    worker->set_role(proto::ROLE_WORKER);
    worker->set_rank(rank);
  }
  return reply;
}

proto::JoinReply admit_reply(const membership::Node& to, const Joined& joined, const std::string& job_text,
                             uint32_t seats) {
  proto::JoinReply reply;
  reply.set_rank(to.member.rank);
  reply.set_seats(seats);
  reply.set_job_text(job_text);
  reply.set_records_train(joined.records_train);
  reply.set_records_val(joined.records_val);
  for (const Node& node : joined.nodes) {
    proto::Node* one = reply.add_nodes();
    one->set_role(node.member.role == Role::kWorker ? proto::ROLE_WORKER : proto::ROLE_SERVER);
    one->set_rank(node.member.rank);
    one->set_incarnation(node.incarnation);
    one->set_address(node.address);
  }
  return reply;
}

void add_nodes(const std::vector<Node>& nodes, proto::SchedulerState& to) {
  for (const Node& node : nodes) {
    proto::Node& one = *to.add_nodes();
    one.set_role(node.member.role == Role::kWorker ? proto::ROLE_WORKER : proto::ROLE_SERVER);
    one.set_rank(node.member.rank);
    one.set_incarnation(node.incarnation);
    one.set_address(node.address);
    one.set_host(node.host);
  }
}

std::vector<Node> nodes_of(const proto::SchedulerState& state) {
  std::vector<Node> nodes;
  for (const proto::Node& node : state.nodes()) {
    nodes.push_back({{role_of(node.role()), node.rank()}, node.incarnation(), node.address(), node.host()});
  }
  return nodes;
}

}  // namespace dtrain::rpc
