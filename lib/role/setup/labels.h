// Which labels of the data the losses of a network read, and which metrics follow from them.
#pragma once

#include <vector>

#include "base/error.h"
#include "data/loading/loader.h"
#include "graph/graph.h"
#include "train/metrics.h"

namespace dtrain::job {
struct JobFlags;
struct AugmentFlags;
}  // namespace dtrain::job

namespace dtrain::role {

// The labels of the network in the order of its file, which is also their order in the records. Code::kUsage, naming
// the labels, if a record has a different number of labels.
Result<std::vector<data::BatchLabel>> batch_labels(const job::AugmentFlags& flags, const graph::Shapes& shapes);

// The metrics of the job for each result of the network.
train::MetricSpec metrics_of(const job::JobFlags& flags, const graph::Shapes& shapes);

}  // namespace dtrain::role
