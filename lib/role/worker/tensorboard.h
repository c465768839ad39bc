// What a worker writes for TensorBoard, into the folder tensorboard/worker-RANK of the run directory (docs/monitoring.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/loading/open.h"
#include "job/spec/job_spec.h"
#include "observe/tensorboard/event_writer.h"
#include "role/process/process.h"
#include "role/setup/network.h"
#include "telemetry/record.h"
#include "train/outcome.h"
#include "train/views.h"

namespace dtrain::role {

// The hyperparameters of a job: the job's flags that matter most, by name.
std::vector<observe::HyperParameter> hyperparameters(const job::Flags& flags);

// All references are borrowed and must outlive the run.
struct TensorBoardSetup {
  const Process& process;
  const job::JobSpec& spec;  // complete
  const Network& network;
  const data::DataSets& data;
  uint32_t rank = 0;
};

// All workers write their curves. Rank 0 also writes the network, the first pictures, the flags and, with --monitor, the
// histograms. Nothing is written before the first step, so a failed start leaves no file.
class TensorBoardRun {
 public:
  explicit TensorBoardRun(const TensorBoardSetup& setup);

  // Both may be used as long as this object exists.
  std::unique_ptr<telemetry::Sink> sink();
  train::Views views();
  // Call when training has ended. A run that was stopped on request goes on later, so it gets no end.
  void end(const Result<train::TrainOutcome>& outcome);

 private:
  [[nodiscard]] bool is_rank_0() const { return setup_.rank == 0; }
  void begin(uint64_t step, const data::LoadedBatch& batch);
  void add_pictures(uint64_t step, const data::LoadedBatch& batch);
  void add_histogram(uint64_t step, const train::ShownTensor& tensor);

  TensorBoardSetup setup_;
  observe::EventWriter writer_;
};

}  // namespace dtrain::role
