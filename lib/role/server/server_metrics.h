// The metrics of a server.
#pragma once

#include "kvstore/server/shard.h"
#include "telemetry/record.h"

namespace dtrain::role {

void set_metrics(const kvstore::ShardCounts& counts, telemetry::Registry& to);

// The record that a server writes to its metrics.jsonl when it ends. It has no values if the server made no update.
telemetry::Record end_record(const telemetry::Snapshot& metrics);

}  // namespace dtrain::role
