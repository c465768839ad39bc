#include "train/disk_need.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "base/words.h"

namespace dtrain::train {

int64_t checkpoints_to_come(const CheckpointPlan& plan) {
  if (plan.save_period == 0) return 0;
  const int64_t to_write = std::max<int64_t>(0, plan.num_epochs / plan.save_period - plan.finished / plan.save_period);
  if (plan.keep == 0) return to_write;
  return std::min(to_write, std::max<int64_t>(1, plan.keep + 1 - plan.on_disk));
}

Result<std::string> check_disk(const DiskNeed& need, const std::string& prefix, double free_bytes) {
  if (need.checkpoints == 0 || need.bytes() <= free_bytes) return std::string();
  const std::string free = fmt::format("{} are free for '{}'", bytes_text(free_bytes), prefix);
  constexpr const char* kWays =
      "free some space, choose another place with --run-dir or --save-model-prefix, or save "
      "less with --save-optimizer-states 0";
  if (need.checkpoint > free_bytes) {
    return fail(Code::kData, "a checkpoint takes {}, but only {}: {}", bytes_text(need.checkpoint), free, kWays);
  }
  return fmt::format(
      "the checkpoints of this run will take {} at the same time ({} of {}{}), but only {}: keep fewer checkpoints "
      "(--keep, --save-period), {}",
      bytes_text(need.bytes()), need.checkpoints, bytes_text(need.checkpoint),
      need.best > 0 ? fmt::format(", and {} for the best checkpoint", bytes_text(need.best)) : "", free, kWays);
}

double free_bytes_for(const std::string& prefix) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path directory = fs::absolute(prefix, error).parent_path();
  while (!directory.empty() && directory != directory.parent_path() && !fs::exists(directory, error)) {
    directory = directory.parent_path();
  }
  const fs::space_info space = fs::space(directory, error);
  return error ? std::numeric_limits<double>::infinity() : static_cast<double>(space.available);
}

}  // namespace dtrain::train
