// The types of flags whose value is one of a few words. value.h has the words.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace dtrain::job {

// The batch systems whose files --launcher print=SYSTEM prints.
inline constexpr std::array<std::string_view, 4> kBatchSystems = {"slurm", "sge", "yarn", "kubernetes"};

enum class UpdateOn { kAuto, kStore, kWorker };
enum class Placement { kHash, kBalanced };
enum class OnNan { kFail, kSkip };
enum class OnWorkerLoss { kFail, kWait, kShrink };
enum class Reshare { kEpoch, kNow };  // when the workers that are left divide the records anew
// What happens to an update when the number of workers has changed: it has other samples; it keeps its samples; or it
// has other samples and a rate in proportion.
enum class ElasticBatch { kOff, kKeep, kScale };
enum class HostOrder { kSpread, kPack };
// What to do with a worker in no group: report an error, or form a group of its own.
enum class Ungrouped { kError, kOwn };
enum class LogFormat { kNew, kLegacy };  // kNew: the format of MXNet 1.4 and later; kLegacy: of MXNet 0.7 to 1.3

// The weight of a GSP update with staleness Y, in the order of the rules: 1/Y, 1, Y^-parameter, max(1/Y, parameter).
struct GspWeight {
  enum class Rule { kInverse, kNone, kPower, kFloor };
  Rule rule = Rule::kInverse;
  double parameter = 0;
  bool operator==(const GspWeight&) const = default;
};

// How images::first_resize() changes an image's size before all other augmentations.
struct Resize {
  static constexpr int64_t kOff = 0, kFit = -1;
  int64_t edge = kOff;  // the shorter edge in pixels, or kOff or kFit
  bool operator==(const Resize&) const = default;
};

enum class LrScheduler { kAuto, kFactor, kMultifactor, kPoly, kCosine };
// How lbsgd raises its learning rate to the value for the large batch. kLars does not raise the rate: each array gets
// its own.
enum class WarmupStrategy { kLinear, kPower2, kSqrt, kLars, kNone };

}  // namespace dtrain::job
