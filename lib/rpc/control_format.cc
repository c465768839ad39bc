#include "rpc/control_format.h"

#include "data.pb.h"

namespace dtrain::rpc {
namespace {

using kvstore::AssignState;
using kvstore::AssignValues;
using kvstore::ControlAnswer;
using kvstore::ControlRequest;
using kvstore::PullCounters;
using kvstore::PullState;
using kvstore::Regroup;
using kvstore::SetRate;

struct SetWhat {
  void operator()(const AssignState& assign) const { to.mutable_assign_state()->set_slot(assign.slot); }
  void operator()(const AssignValues& assign) const {
    to.mutable_assign_values()->set_updates(assign.counters.updates);
    to.mutable_assign_values()->set_samples(assign.counters.samples);
    to.mutable_assign_values()->set_states(assign.states);
    to.mutable_assign_values()->set_rate_factor(assign.counters.rate_factor);
  }
  void operator()(const Regroup& regroup) const {
    to.mutable_regroup()->mutable_group_of()->Assign(regroup.group_of.begin(), regroup.group_of.end());
    if (!regroup.alignment) return;
    proto::Alignment& alignment = *to.mutable_regroup()->mutable_alignment();
    alignment.set_updates(regroup.alignment->counters.updates);
    alignment.set_samples(regroup.alignment->counters.samples);
    alignment.set_rate_factor(regroup.alignment->counters.rate_factor);
    alignment.mutable_leads()->Assign(regroup.alignment->leads.begin(), regroup.alignment->leads.end());
  }
  void operator()(const PullState& pull) const { to.mutable_pull_state()->set_slot(pull.slot); }
  void operator()(const PullCounters&) const { to.mutable_pull_counters(); }
  void operator()(const SetRate& rate) const {
    to.mutable_set_rate()->set_factor(rate.change.factor);
    to.mutable_set_rate()->set_from_samples(rate.change.from_samples);
  }
  proto::Control& to;
};

void set(const ControlRequest& request, proto::Control& to) {
  to.set_request(request.request);
  to.set_payload_crc(request.payload_crc);
  to.mutable_origin()->set_rank(request.rank);
  to.mutable_origin()->set_incarnation(request.incarnation);
  std::visit(SetWhat{to}, request.what);
}

void set(const ControlAnswer& answer, proto::Control& to) {
  to.set_request(answer.request);
  to.set_payload_crc(answer.payload_crc);
  to.mutable_answer()->set_status(static_cast<uint32_t>(answer.status));
  to.mutable_answer()->set_updates(answer.counters.updates);
  to.mutable_answer()->set_samples(answer.counters.samples);
}

std::optional<kvstore::Head> answer_of(const proto::Control& from) {
  const proto::ControlAnswer& answer = from.answer();
  if (answer.status() > static_cast<uint32_t>(kvstore::Status::kCorrupt)) return std::nullopt;
  return ControlAnswer{.id = {from.key(), from.slice()},
                       .request = from.request(),
                       .status = static_cast<kvstore::Status>(answer.status()),
                       .counters = {.samples = answer.samples(), .updates = answer.updates()},
                       .payload_crc = from.payload_crc()};
}

AssignValues values_of(const proto::AssignValues& from) {
  return {.counters = {.samples = from.samples(),
                       .updates = from.updates(),
                       .rate_factor = from.rate_factor() == 0 ? 1 : from.rate_factor()},
          .states = from.states()};
}

Regroup groups_of(const proto::Regroup& from) {
  Regroup regroup{.group_of = {from.group_of().begin(), from.group_of().end()}};
  if (!from.has_alignment()) return regroup;
  const proto::Alignment& alignment = from.alignment();
  regroup.alignment = {.counters = {.samples = alignment.samples(),
                                    .updates = alignment.updates(),
                                    .rate_factor = alignment.rate_factor()},
                       .leads = {alignment.leads().begin(), alignment.leads().end()}};
  return regroup;
}

std::optional<kvstore::Head> request_of(const proto::Control& from) {
  ControlRequest request{.id = {from.key(), from.slice()},
                         .rank = from.origin().rank(),
                         .incarnation = from.origin().incarnation(),
                         .request = from.request(),
                         .what = {},
                         .payload_crc = from.payload_crc()};
  switch (from.what_case()) {
    case proto::Control::kAssignState: request.what = AssignState{from.assign_state().slot()}; break;
    case proto::Control::kAssignValues: request.what = values_of(from.assign_values()); break;
    case proto::Control::kRegroup: request.what = groups_of(from.regroup()); break;
    case proto::Control::kPullState: request.what = PullState{from.pull_state().slot()}; break;
    case proto::Control::kPullCounters: request.what = PullCounters{}; break;
    case proto::Control::kSetRate:
      request.what = SetRate{{.factor = from.set_rate().factor(), .from_samples = from.set_rate().from_samples()}};
      break;
    default: return std::nullopt;
  }
  return request;
}

}  // namespace

std::string to_control_bytes(const kvstore::Head& head) {
  proto::Control control;
  const kvstore::SliceId id = slice_of(head);
  control.set_key(id.key);
  control.set_slice(id.slice);
  if (const auto* request = std::get_if<ControlRequest>(&head)) {
    set(*request, control);
  } else {
    set(std::get<ControlAnswer>(head), control);
  }
  const ControlPrefix prefix{.size = static_cast<uint32_t>(control.ByteSizeLong())};
  std::string bytes(reinterpret_cast<const char*>(&prefix), sizeof(prefix));
  control.AppendToString(&bytes);
  return bytes;
}

std::optional<kvstore::Head> parse_control(std::span<const std::byte> protobuf) {
  proto::Control control;
  if (!control.ParseFromArray(protobuf.data(), static_cast<int>(protobuf.size()))) return std::nullopt;
  return control.has_answer() ? answer_of(control) : request_of(control);
}

}  // namespace dtrain::rpc
