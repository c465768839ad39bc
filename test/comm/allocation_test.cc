// Operations in shared memory must not allocate, because a step performs several of them. gloo allocates for every
// message.

#include "comm/hierarchy.h"
#include "comm/shared_memory.h"
#include "group.h"
#include "support/allocations.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::comm;
using namespace dtrain::comm::test;

namespace {

// Counts the ranks' allocations in all operations, after each operation has been done once.
int allocations_of(const Group& group) {
  std::vector<int> by_rank(group.size());
  on_all(group.size(), [&](uint32_t rank) -> Result<> {
    std::vector<float> values(5000);
    Collective& end = *group[rank];
    for (int round = 0; round < 3; round++) {
      dtrain::test::counts_allocations = round > 0;
      const bool done = end.all_reduce(values) && end.reduce_scatter(values) && end.all_gather(values) &&
                        end.reduce(values, 1) && end.broadcast(values, 1) && end.all_reduce({});
      dtrain::test::counts_allocations = false;
      if (!done) by_rank[rank] = -1;
    }
    if (by_rank[rank] == 0) by_rank[rank] = dtrain::test::allocations;
    return {};
  });
  int sum = 0;
  for (const int n : by_rank) sum += n < 0 ? 1000 : n;
  return sum;
}

}  // namespace

TEST_CASE("an operation in shared memory allocates nothing", "[comm]") {
  CHECK(allocations_of(make_shared_memory_group(3, {})) == 0);
}

TEST_CASE("operations of processes and devices allocate nothing after the first", "[comm]") {
  Group group;
  for (auto& process : make_shared_memory_group(2, {})) {
    for (auto& end : make_hierarchy({.devices = 2}, std::move(process))) group.push_back(std::move(end));
  }
  CHECK(allocations_of(group) == 0);
}
