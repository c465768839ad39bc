#include "cuda/dnn/planner.h"

#include <fmt/core.h>

namespace dtrain::cuda {

Result<Plan> Planner::plan(const ConvolutionPass& pass) {
  const std::string key = fmt::format("{} | {} | {}", device_.identity(), options_.key(), pass.text());
  if (const std::string* stored = cache_ == nullptr ? nullptr : cache_->find(key)) {
    // A stored plan that cuDNN rejects is not an error: it only costs the time to choose another plan.
    if (Result<Plan> plan = load_plan(device_, *stored); plan) {
      from_cache_++;
      return plan;
    }
  }
  DT_TRY(Plan plan, choose_plan(device_, operations_of(pass).finish(device_), cudnn_type(pass.type), options_),
         "choosing cuDNN's engine for {}", pass.text());
  chosen_++;
  if (cache_ != nullptr) cache_->put(key, plan.json());
  return plan;
}

}  // namespace dtrain::cuda
