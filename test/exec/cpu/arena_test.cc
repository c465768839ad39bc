#include "exec/cpu/arena.h"

#include <sys/mman.h>

#include "support/catch.h"

#include <algorithm>
#include <cstdint>
#include <vector>

using namespace dtrain::exec::cpu;

namespace {

constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20;

size_t resident_pages(const Arena& arena) {
  std::vector<unsigned char> pages(arena.size() / kPage);
  REQUIRE(mincore(arena.data(), arena.size(), pages.data()) == 0);
  return static_cast<size_t>(std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; }));
}

}  // namespace

TEST_CASE("an arena is zero, aligned to huge pages, and takes no memory before it is used", "[exec][cpu]") {
  Arena arena(16 * kHugePage);
  CHECK(reinterpret_cast<uintptr_t>(arena.data()) % kHugePage == 0);
  CHECK(resident_pages(arena) == 0);
  CHECK(arena.data()[5 * kHugePage] == std::byte{0});
  arena.data()[arena.size() - 1] = std::byte{7};
  CHECK(resident_pages(arena) <= 2 * kHugePage / kPage);
  const std::byte* data = arena.data();
  const Arena moved = std::move(arena);
  CHECK(moved.data() == data);
  CHECK(moved.data()[moved.size() - 1] == std::byte{7});
  CHECK(Arena(0).data() == nullptr);
}
