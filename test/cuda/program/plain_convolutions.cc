// The module for GPUs with plain loops in place of cuDNN.
#include "cuda/executor/dnn_runner.h"
#include "plain_runner.h"

namespace dtrain::cuda {

// Logs the settings, which have no effect on plain loops.
std::shared_ptr<PlanStore> open_plan_store(const exec::PlanSettings& settings, const Log& log) {
  log.info("plans: deterministic {}, cache '{}', run '{}', resumed '{}'", settings.deterministic, settings.cache,
           settings.run, settings.resumed);
  return nullptr;
}

Result<std::shared_ptr<ConvolutionRunner>> make_dnn_runner(int, std::shared_ptr<PlanStore>, const Log&) {
  return test::plain_runner();
}

}  // namespace dtrain::cuda
