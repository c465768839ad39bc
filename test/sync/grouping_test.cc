#include "sync/grouping.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::sync;
using Catch::Matchers::Contains;
using dtrain::test::must;

namespace {

using Groups = std::vector<Group>;

Grouping grouping_of(const std::vector<double>& speeds, const GroupingOptions& options = {}) {
  return must(group_by_speed(speeds, options));
}

std::string error_of(const std::vector<double>& speeds, const GroupingOptions& options = {}) {
  const auto grouping = group_by_speed(speeds, options);
  return grouping ? "" : grouping.error().text();
}

double ssw(const std::vector<double>& speeds, const Groups& group_of) {
  double sum_of_all = 0;
  for (Group group = 0; group < speeds.size(); group++) {
    double sum = 0, count = 0;
    for (size_t i = 0; i < speeds.size(); i++) {
      if (group_of[i] == group) sum += speeds[i], count++;
    }
    for (size_t i = 0; i < speeds.size(); i++) {
      if (group_of[i] == group) sum_of_all += std::pow(speeds[i] - sum / count, 2);
    }
  }
  return sum_of_all;
}

// The smallest SSW of all ways to cut ascending speeds into k groups.
double least_ssw(const std::vector<double>& ascending, size_t k) {
  double least = std::numeric_limits<double>::infinity();
  for (uint32_t cuts = 0; cuts < 1U << (ascending.size() - 1); cuts++) {
    if (static_cast<size_t>(__builtin_popcount(cuts)) != k - 1) continue;
    Groups group_of;
    Group group = 0;
    for (size_t i = 0; i < ascending.size(); i++) {
      group_of.push_back(group);
      if ((cuts >> i & 1U) != 0) group++;
    }
    least = std::min(least, ssw(ascending, group_of));
  }
  return least;
}

}  // namespace

// The speeds of this table have a known best grouping, for each number of groups and by both criteria.
TEST_CASE("the smallest sufficient number of groups is chosen, or the variance ratio's on request", "[tools][plan]") {
  const std::vector<double> speeds = {30, 31, 59, 60, 61, 98, 100, 102};
  const Grouping natural = grouping_of(speeds);
  CHECK(natural.chosen_k == 3);
  CHECK(natural.group_of == Groups{2, 2, 1, 1, 1, 0, 0, 0});
  CHECK(natural.speeds == std::vector<double>{98, 59, 30});
  const double vrc[] = {28.6, 1446.5, 1801.9, 1825.0, 2433.95, 2028.5};
  const double spread[] = {0.643, 0.040, 0.033, 0.033, 0.033, 0.017};
  REQUIRE(natural.by_k.size() == 8);
  CHECK_FALSE(natural.by_k[0].vrc);
  CHECK_FALSE(natural.by_k[7].vrc);
  for (size_t i = 0; i < 6; i++) {
    const Partition& partition = natural.by_k[i + 1];
    INFO(partition.k);
    CHECK(partition.vrc.value() == Approx(vrc[i]).margin(0.051));
    CHECK(partition.spread == Approx(spread[i]).margin(0.00051));
  }
  CHECK(grouping_of(speeds, {.criterion = GroupingOptions::Criterion::kVrc}).chosen_k == 6);
  CHECK(grouping_of(speeds, {.tolerance = 0.7}).chosen_k == 2);
  CHECK(grouping_of(speeds, {.tolerance = 0.035}).chosen_k == 4);
  CHECK(grouping_of(speeds, {.count = 2}).group_of == Groups{1, 1, 1, 1, 1, 0, 0, 0});
  CHECK(grouping_of(speeds, {.count = 8}).speeds.size() == 8);
}

TEST_CASE("groups are the best partition into their number, for any speeds", "[tools][plan]") {
  for (uint64_t seed = 1; seed <= 60; seed++) {
    INFO("seed " << seed);
    RandomStream random(seed, Use::kTest);
    std::vector<double> speeds(static_cast<size_t>(1 + random.below(9)));
    // Whole numbers, so that some are equal. They are far from 0, so that an implementation based on sums of squares
    // would lose their differences.
    for (double& speed : speeds) speed = 1e6 + static_cast<double>(random.below(12));
    std::vector<double> ascending = speeds;
    std::sort(ascending.begin(), ascending.end());
    for (size_t k = 1; k <= speeds.size(); k++) {
      const Grouping grouping = grouping_of(speeds, {.count = static_cast<int64_t>(k)});
      CHECK(grouping.speeds.size() == k);
      CHECK(ssw(speeds, grouping.group_of) == Approx(least_ssw(ascending, k)).margin(1e-3));
    }
    const Grouping natural = grouping_of(speeds, {.tolerance = 4e-6});
    CHECK(natural.by_k[static_cast<size_t>(natural.chosen_k) - 1].spread <= 4e-6);
    for (int64_t k = 1; k < natural.chosen_k; k++) CHECK(natural.by_k[static_cast<size_t>(k) - 1].spread > 4e-6);
  }
}

TEST_CASE("equal, few and unusable speeds give groups or an error that names the worker", "[tools][plan]") {
  for (const auto criterion : {GroupingOptions::Criterion::kTolerance, GroupingOptions::Criterion::kVrc}) {
    for (const size_t workers : {1, 2, 3, 12}) {
      const Grouping equal = grouping_of(std::vector<double>(workers, 0.1), {.criterion = criterion});
      CHECK(equal.group_of == Groups(workers, 0));
      for (const Partition& partition : equal.by_k) CHECK_FALSE(partition.vrc);
    }
  }
  CHECK(grouping_of({10, 30}).group_of == Groups{1, 0});
  CHECK(grouping_of({10, 30}, {.criterion = GroupingOptions::Criterion::kVrc}).chosen_k == 1);
  // All distances within the groups are 0.
  const Grouping twins = grouping_of({10, 30, 10, 30}, {.criterion = GroupingOptions::Criterion::kVrc});
  CHECK(twins.group_of == Groups{1, 0, 1, 0});
  CHECK(std::isinf(twins.by_k[1].vrc.value()));
  CHECK_THAT(error_of({}), Contains("the speed of no worker is known"));
  CHECK_THAT(error_of({1, NAN, 3}), Contains("the speed of worker 1 is nan"));
  CHECK_THAT(error_of({1, 2, 0}), Contains("the speed of worker 2 is 0"));
  CHECK_THAT(error_of({1, 2}, {.count = 3}), Contains("3 groups of 2 workers"));
}

TEST_CASE("a group that is too small joins the nearer neighbor", "[tools][plan]") {
  const std::vector<double> speeds = {30, 60, 61, 62, 80, 100, 101};
  CHECK(grouping_of(speeds).speeds.size() == 4);
  // 30 has only one neighbor. After it has joined, the mean on that side of 80 is 53.25, which is farther away than
  // 100.5.
  CHECK(grouping_of(speeds, {.min_size = 2}).group_of == Groups{1, 1, 1, 1, 0, 0, 0});
  CHECK(grouping_of(speeds, {.min_size = 4}).group_of == Groups(7, 0));
  CHECK(grouping_of({60, 61, 80, 100, 101}, {.min_size = 2}).group_of == Groups{1, 1, 1, 0, 0});
  CHECK(grouping_of(speeds, {.min_size = 100}).speeds == std::vector<double>{30});
}
