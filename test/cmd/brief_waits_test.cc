// How long the OpenMP library lets waiting threads spin, as the library itself prints when the program starts.

#include "support/catch.h"
#include "support/process.h"

namespace dtrain {

namespace {

// Runs the program, which may start itself again, and returns the spin count that the library printed at the last
// start;
// "" if it printed none.
std::string spin_count(std::vector<std::string> arguments, std::vector<std::string> environment = {}) {
  arguments.insert(arguments.begin(), DTRAIN_EXE);
  environment.emplace_back("OMP_DISPLAY_ENV=verbose");
  const test::Ended end = test::run(arguments, {.deadline_s = 60, .directory = "", .environment = environment});
  CHECK(end.code == 0);
  const std::string key = "GOMP_SPINCOUNT = '";
  const size_t begin = end.output.rfind(key);
  if (begin == std::string::npos) return "";
  const size_t value = begin + key.size();
  return end.output.substr(value, end.output.find('\'', value) - value);
}

const std::vector<std::string> kBench = {"bench", "train", "--network", "mlp", "--num-batches", "3"};
const std::vector<std::string> kUnset = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"};

}  // namespace

TEST_CASE("computing commands limit OpenMP's spinning unless the user has set it", "[cmd]") {
  CHECK(spin_count(kBench, kUnset) == "5000");
  CHECK(spin_count({"ps"}, kUnset) == "300000");  // the library's default: the program did not start itself again
  CHECK(spin_count(kBench, {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT=70"}) == "70");
  CHECK(spin_count(kBench, {"OMP_WAIT_POLICY=passive", "GOMP_SPINCOUNT"}) == "0");
}

// Starting again would cost a quarter of a second.
TEST_CASE("commands that only print do not restart themselves", "[cmd]") {
  const std::vector<std::vector<std::string>> lines = {{"--version"},
                                                       {"--help"},
                                                       {"train", "-h"},
                                                       {"bench", "train", "--help"},
                                                       {"--network", "lenet", "--benchmark", "1", "--dry-run"}};
  for (const std::vector<std::string>& arguments : lines) CHECK(spin_count(arguments, kUnset) == "300000");
}

}  // namespace dtrain
