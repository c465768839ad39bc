// Which workers of a GSP job go together, from their speeds alone (distributed.md 2.7, R-G10): exact k-means in one
// dimension. Its groups are intervals of the sorted speeds, so dynamic programming finds the best ones.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "sync/machine.h"

namespace dtrain::sync {

struct GroupingOptions {
  enum class Criterion {
    kTolerance,  // the fewest groups whose members' speeds differ by at most `tolerance`
    kVrc,        // 2 to n - 1 groups, those with the largest variance ratio; likes many small ones
  };
  Criterion criterion = Criterion::kTolerance;
  double tolerance = 0.10;  // (largest - smallest) / mean of a group
  int64_t count = 0;        // of groups; 0: the criterion says
  int64_t min_size = 1;     // a smaller group joins the neighbour whose mean is nearer, even if that makes fewer
};

// The best partition into k groups: the one with the least SSW, the squared distances from the groups' means.
struct Partition {
  int64_t k = 0;
  double spread = 0;  // the largest (max - min) / mean of a group
  // [SSB / (k - 1)] / [SSW / (n - k)] of Calinski and Harabasz; infinite where SSW is 0, and nothing for 1 or n groups
  // and for speeds that are all the same.
  std::optional<double> vrc = {};
};

struct Grouping {
  std::vector<Group> group_of;  // by rank; 0 is the fastest one
  std::vector<double> speeds;   // by group: of the slowest member, which the others wait for
  std::vector<Partition> by_k;  // of 1 group, 2, ...: as many as were looked at, ten if there are so many
  int64_t chosen_k = 1;         // before small groups were merged
};

inline constexpr int64_t kGroupingWorkersMax = 2000;  // as many groups, by kVrc, take seconds

// `speeds` by rank, of any unit. O(n^2 k). Code::kData names the worker whose speed is no number above 0; kUsage: more
// groups than workers, too many workers.
Result<Grouping> group_by_speed(const std::vector<double>& speeds, const GroupingOptions& options);

}  // namespace dtrain::sync
