// Divides the workers of a GSP job into groups of similar speed: exact k-means in one dimension. The groups are
// intervals of the sorted speeds, so dynamic programming finds the best ones. See docs/protocol.md, "Groups".
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "sync/machine.h"

namespace dtrain::sync {

struct GroupingOptions {
  enum class Criterion {
    kTolerance,  // the smallest number of groups in which members' speeds differ by at most `tolerance`
    kVrc,        // from 2 to n - 1 groups, the number with the largest variance ratio; favors many small groups
  };
  Criterion criterion = Criterion::kTolerance;
  double tolerance = 0.10;  // largest allowed (max - min) / mean within a group
  int64_t count = 0;        // number of groups; 0: the criterion decides
  // A smaller group is merged into the neighbor with the closer mean, even if that leaves fewer groups.
  int64_t min_size = 1;
};

// The best partition into k groups: the one with the smallest SSW, the sum of squared distances from the groups' means.
struct Partition {
  int64_t k = 0;
  double spread = 0;  // the largest (max - min) / mean of any group
  // The Calinski-Harabasz ratio [SSB / (k - 1)] / [SSW / (n - k)]. Infinite if SSW is 0; nullopt for 1 or n groups and
  // if all speeds are equal.
  std::optional<double> vrc = {};
};

struct Grouping {
  std::vector<Group> group_of;  // the group of each worker, indexed by rank; group 0 is the fastest
  std::vector<double> speeds;   // for each group: the speed of its slowest member, for which the others wait
  std::vector<Partition> by_k;  // for 1, 2, ... groups; at least the first ten, if there are that many workers
  int64_t chosen_k = 1;         // number of groups before small ones were merged
};

inline constexpr int64_t kGroupingWorkersMax = 2000;  // with kVrc and this many workers, grouping takes seconds

// `speeds` is indexed by rank, in any unit. Takes O(n^2 k) time. Errors: Code::kData names the worker whose speed is
// not a positive finite number; Code::kUsage for more groups than workers or too many workers.
Result<Grouping> group_by_speed(const std::vector<double>& speeds, const GroupingOptions& options);

}  // namespace dtrain::sync
