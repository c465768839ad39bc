// Converts between the messages of proto/scheduler.proto and the events and effects of sync/membership.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "rpc/job_types.h"
#include "rpc/scheduler.h"
#include "scheduler.pb.h"
#include "sync/membership.h"
#include "telemetry/tracer.h"

namespace dtrain::rpc {

Role role_of(proto::Role role);

sync::membership::Join to_event(const proto::JoinRequest& request);
sync::membership::BarrierEnter to_event(const proto::BarrierRequest& request);
sync::membership::Done to_event(const proto::DoneRequest& request);
// The connections that a worker has lost, as its heartbeat says.
sync::membership::LinksLost lost_links(Incarnation worker, const proto::Heartbeat& beat);
// The durable snapshots of a server, as its heartbeat says.
sync::membership::Snapshots snapshots(Incarnation server, const proto::Heartbeat& beat);

Pulse to_pulse(const proto::Heartbeat& beat);
void add_metrics(const telemetry::Snapshot& snapshot, proto::Heartbeat& to);
proto::Down to_down(const sync::membership::Notice& notice);
sync::View to_view(const proto::View& message);
// The answer to a heartbeat. `sent_us`: when the heartbeat was sent, on its sender's clock; 0 if this does not answer a
// heartbeat. `clock`: the time since this scheduler began. `traced`: the last trace that is over. `trace`: the newest
// trace; null if there is none.
proto::Down alive(int64_t sent_us, std::chrono::microseconds clock, uint64_t traced,
                  const telemetry::TraceRequest* trace);

// What a scheduler must know of the processes when it comes back.
void add_nodes(const std::vector<Node>& nodes, proto::SchedulerState& to);
std::vector<Node> nodes_of(const proto::SchedulerState& state);

// The two answers to a join, without the scheduler's incarnation: the first asks for a second join, the other has the
// complete job.
proto::JoinReply prepare_reply(const sync::membership::Node& to, uint32_t workers, uint32_t seats);
proto::JoinReply admit_reply(const sync::membership::Node& to, const Joined& joined, const std::string& job_text,
                             uint32_t seats);

}  // namespace dtrain::rpc
