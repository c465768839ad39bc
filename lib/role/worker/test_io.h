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
  const job::JobSpec& spec;  // the complete JobSpec
  const Network& network;    // the network, whose labels must match the data
  const data::DataSets& data;
  job::Coordinator& coordinator;  // coordinator of all workers, each of which reads its own share
};

// Reads this worker's share as training would, for one epoch or until the job is asked to stop. Logs the speed after
// every --disp-batches batches in the format of MXNet's scripts, and at the end the mean time that an image spent in
// each stage of reading. All workers call it. The metrics of the run (train/run_metrics.h) contain the samples and the
// speed of the job. Returns the errors of data::Loader::next and of job::Coordinator.
Result<train::TrainOutcome> test_io(const TestIoSetup& setup);

}  // namespace dtrain::role
