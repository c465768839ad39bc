// --test-io 1: how fast a worker reads its training data, without training.
#pragma once

#include "base/error.h"
#include "data/loading/open.h"
#include "job/process/coordinator.h"
#include "job/spec/job_spec.h"
#include "role/process/process.h"
#include "role/setup/network.h"
#include "train/outcome.h"

namespace dtrain::role {

struct TestIoSetup {
  const Process& process;
  const job::JobSpec& spec;  // complete
  const Network& network;    // whose labels the data must have
  const data::DataSets& data;
  job::Coordinator& coordinator;  // of all workers, each of which reads its own share
};

// Goes through one epoch of the share, or as far as the coordinator lets it, as training would. Logs the speed after
// every --disp-batches batches in the form of MXNet's scripts, and at the end what reading an image took. All workers
// call it; the metrics of the run (train/run_metrics.h) have the samples and the speed of the job. Fails as
// data::Loader::next and the coordinator do.
Result<train::TrainOutcome> test_io(const TestIoSetup& setup);

}  // namespace dtrain::role
