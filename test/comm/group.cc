#include "group.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <set>
#include <thread>

#include "base/random.h"
#include "support/catch.h"
#include "support/must.h"

namespace dtrain::comm::test {

std::vector<Ending> on_ranks(const std::vector<uint32_t>& ranks, const std::function<Result<>(uint32_t)>& work) {
  std::vector<Ending> endings(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); i++) {
    threads.emplace_back([&, i] {
      try {
        endings[i].result = work(ranks[i]);
      } catch (const CheckFailed& e) {
        endings[i] = {.result = fail(Code::kInternal, "{}", e.what()), .has_thrown = true};
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return endings;
}

std::vector<Ending> on_all(size_t n, const std::function<Result<>(uint32_t)>& work) {
  std::vector<uint32_t> ranks(n);
  for (uint32_t rank = 0; rank < n; rank++) ranks[rank] = rank;
  return on_ranks(ranks, work);
}

Arrays whole_numbers(size_t ranks, size_t elements) {
  Arrays arrays(ranks, std::vector<float>(elements));
  for (size_t rank = 0; rank < ranks; rank++) {
    for (size_t i = 0; i < elements; i++) arrays[rank][i] = static_cast<float>((i * 7 + rank * 13) % 17) - 8;
  }
  return arrays;
}

Arrays random_numbers(size_t ranks, size_t elements, uint64_t seed) {
  Arrays arrays(ranks, std::vector<float>(elements));
  for (size_t rank = 0; rank < ranks; rank++) {
    RandomStream random(seed, Use::kTest, rank);
    for (float& value : arrays[rank]) {
      value = static_cast<float>(std::ldexp(random.uniform(-1, 1), static_cast<int>(random.below(20))));
    }
  }
  return arrays;
}

std::vector<float> ordered_sum_of(const Arrays& arrays) {
  std::vector<float> sum = arrays.front();
  for (size_t rank = 1; rank < arrays.size(); rank++) {
    for (size_t i = 0; i < sum.size(); i++) sum[i] += arrays[rank][i];
  }
  return sum;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

namespace {

using Operation = std::function<Result<>(Collective&, std::span<float>)>;

// The arrays after all ranks have done `operation`.
Arrays after(const Group& group, Arrays arrays, const Operation& operation) {
  for (const Ending& ending :
       on_all(group.size(), [&](uint32_t rank) { return operation(*group[rank], arrays[rank]); })) {
    if (!ending.result) FAIL(ending.result.error().text());
  }
  return arrays;
}

void replace(std::vector<float>& to, const std::vector<float>& from, Part part) {
  std::copy_n(from.begin() + static_cast<ptrdiff_t>(part.begin), part.count,
              to.begin() + static_cast<ptrdiff_t>(part.begin));
}

void check_same(const Arrays& got, const Arrays& expected) {
  for (size_t rank = 0; rank < got.size(); rank++) {
    INFO("rank " << rank << " of " << got.size() << ", " << got[rank].size() << " elements");
    CHECK(same_bits(got[rank], expected[rank]));
  }
}

void check_parts(const Group& group, const Arrays& arrays, const std::vector<float>& sum) {
  const auto size = static_cast<uint32_t>(group.size());
  Arrays scattered = arrays;
  std::vector<float> gathered = arrays.front();
  for (uint32_t rank = 0; rank < size; rank++) {
    replace(scattered[rank], sum, part_of(sum.size(), rank, size));
    replace(gathered, arrays[rank], part_of(sum.size(), rank, size));
  }
  INFO("reduce_scatter, all_gather");
  check_same(after(group, arrays, [](auto& end, auto values) { return end.reduce_scatter(values); }), scattered);
  check_same(after(group, arrays, [](auto& end, auto values) { return end.all_gather(values); }),
             Arrays(size, gathered));
  check_same(after(group, scattered, [](auto& end, auto values) { return end.all_gather(values); }), Arrays(size, sum));
}

void check_root(const Group& group, const Arrays& arrays, const std::vector<float>& sum, uint32_t root) {
  INFO("root " << root);
  Arrays reduced = arrays;
  reduced[root] = sum;
  check_same(after(group, arrays, [root](auto& end, auto values) { return end.reduce(values, root); }), reduced);
  check_same(after(group, reduced, [root](auto& end, auto values) { return end.broadcast(values, root); }),
             Arrays(arrays.size(), sum));
}

}  // namespace

void check_operations(const Group& group, const Arrays& arrays, const std::vector<float>& sum) {
  const auto size = static_cast<uint32_t>(group.size());
  check_same(after(group, arrays, [](auto& end, auto values) { return end.all_reduce(values); }), Arrays(size, sum));
  check_parts(group, arrays, sum);
  for (const uint32_t root : std::set<uint32_t>{0, size / 2, size - 1}) check_root(group, arrays, sum, root);
}

void check_lengths(const Group& group) {
  for (uint32_t rank = 0; rank < group.size(); rank++) {
    REQUIRE(group[rank]->rank() == rank);
    REQUIRE(group[rank]->size() == group.size());
  }
  for (const size_t elements : {size_t{0}, size_t{1}, size_t{7}, size_t{1000}, (size_t{1} << 20) + 3}) {
    const Arrays arrays = whole_numbers(group.size(), elements);
    check_operations(group, arrays, ordered_sum_of(arrays));
  }
}

void check_many_operations(const Group& group, uint64_t seed, const ManyOperations& many) {
  INFO("seed " << seed);
  const size_t size = group.size();
  std::vector<int> wrong(size, 0);
  const auto endings = on_all(size, [&](uint32_t rank) -> Result<> {
    RandomStream shared(seed, Use::kTest, 0);
    RandomStream own(seed, Use::kTest, 1, rank);
    for (int operation = 0; operation < many.count; operation++) {
      for (int64_t pause = own.below(many.pause_max); pause > 0; pause--) std::this_thread::yield();
      Arrays arrays = random_numbers(size, static_cast<size_t>(shared.below(many.elements_max)), shared.next());
      const std::vector<float> sum = many.sum_of(arrays);
      std::vector<float>& values = arrays[rank];
      const auto root = static_cast<uint32_t>(shared.below(static_cast<int64_t>(size)));
      if (shared.below(2) == 0) {
        DT_TRY_VOID(many.sum_all(*group[rank], values));
      } else {
        DT_TRY_VOID(group[rank]->reduce(values, root));
        DT_TRY_VOID(group[rank]->broadcast(values, root));
      }
      if (!same_bits(values, sum)) wrong[rank]++;
    }
    return {};
  });
  for (const Ending& ending : endings) REQUIRE(ending.result.has_value());
  CHECK(wrong == std::vector<int>(size, 0));
}

Group gloo_group(uint32_t ranks, double wait_limit_s) {
  std::signal(SIGPIPE, SIG_IGN);  // as dtrain does
  Board board(ranks);
  Group group(ranks);
  for (const Ending& ending : on_all(ranks, [&](uint32_t rank) -> Result<> {
         DT_TRY(group[rank],
                make_gloo_group({.rank = rank, .size = ranks, .wait_limit_s = wait_limit_s}, board.of_pairs(rank)));
         return {};
       })) {
    dtrain::test::must(ending.result);
  }
  return group;
}

}  // namespace dtrain::comm::test
