// The metrics of a server.
#pragma once

#include "kvstore/server/shard.h"
#include "telemetry/record.h"

namespace dtrain::role {

void set_metrics(const kvstore::ShardCounts& counts, telemetry::Registry& to);

// What a server writes down at its end: its metrics.jsonl has this line. Without values if it made no update.
telemetry::Record end_record(const telemetry::Snapshot& metrics);

}  // namespace dtrain::role
