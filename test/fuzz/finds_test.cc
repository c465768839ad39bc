// Runs the functions that the fuzzers run, without clang: on the seeds, on all inputs on which a fuzzer once failed,
// and on seeds with changed bytes.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/random.h"
#include "fuzz/targets.h"
#include "support/catch.h"

namespace dtrain::fuzz {
namespace {

std::string bytes_of_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("the fuzzers' seeds and finds are read", "[fuzz]") {
  for (const Target& target : targets()) {
    const std::vector<std::string> seeds = target.seeds();
    const auto refused = std::ranges::count_if(seeds, [&](const std::string& seed) { return !target.read(seed); });
    INFO(target.name);
    CHECK(refused == target.refused_seeds);
    const std::filesystem::path finds = std::filesystem::path(DTRAIN_FINDS_DIR) / target.name;
    REQUIRE(std::filesystem::is_directory(finds));
    for (const auto& entry : std::filesystem::directory_iterator(finds)) {
      INFO(entry.path());
      CHECK_NOTHROW(target.read(bytes_of_file(entry.path())));
    }
  }
}

TEST_CASE("seeds with changed bytes give a value or an error", "[fuzz]") {
  constexpr size_t kBytesMax = 4000;  // of a seed
  for (const Target& target : targets()) {
    uint64_t seed = 0;
    for (const std::string& valid : target.seeds()) {
      RandomStream random(++seed, Use::kTest);
      for (int round = 0; round < 200 && valid.size() <= kBytesMax; round++) {
        INFO(target.name << ", seed " << seed << ", round " << round);
        std::string bytes = valid;
        for (int change = 0; change <= round % 3; change++) {
          bytes[static_cast<size_t>(random.below(bytes.size()))] = static_cast<char>(random.below(256));
        }
        REQUIRE_NOTHROW(target.read(bytes));
      }
    }
  }
}

}  // namespace dtrain::fuzz
