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

// For each label of the network the position among the labels of a record. --label-names tells it; without it the
// network's labels are those of the records, in the order of the network's file. Code::kUsage, naming the labels, if the
// data have others.
Result<std::vector<data::BatchLabel>> batch_labels(const job::AugmentFlags& flags, const graph::Shapes& shapes);

// The metrics of the job, for each result of the network.
train::MetricSpec metrics_of(const job::JobFlags& flags, const graph::Shapes& shapes);

}  // namespace dtrain::role
