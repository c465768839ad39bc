// Conversations with the machine: each file in scenarios/ has a policy and events, and under each event the effects
// that it must have. DTRAIN_REWRITE_GOLDEN=1 writes what the machine does today; read it as a diff.
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "base/file.h"
#include "support/catch.h"
#include "sync/text.h"

using namespace dtrain;
using namespace dtrain::sync;

namespace {

struct Scenario {
  std::string source;    // as it should be in the file
  std::string replayed;  // with the effects that the machine returns
};

// Lines: "# comment", "policy POLICY", "begin STEP" (before the policy), an event, or " effect".
Scenario replay(const std::string& source) {
  Scenario scenario{source, {}};
  std::optional<Machine> machine;
  Step begin = 0;
  for (size_t at = 0; at < source.size();) {
    const size_t end = source.find('\n', at);
    const std::string line = source.substr(at, end - at);
    at = end + 1;
    if (line.rfind("  ", 0) == 0) continue;  // an effect: replaced by the one that the machine returns
    scenario.replayed += line + "\n";
    if (line.empty() || line[0] == '#') continue;
    if (line.rfind("begin ", 0) == 0) {
      begin = std::stoull(line.substr(6));
    } else if (line.rfind("policy ", 0) == 0) {
      machine.emplace(parse_policy(line.substr(7)).value(), begin);
    } else {
      std::vector<Effect> effects;
      machine.value().on(parse_event(line).value(), effects);
      for (const Effect& effect : effects) scenario.replayed += "  " + to_text(effect) + "\n";
    }
  }
  return scenario;
}

}  // namespace

TEST_CASE("the machine answers as in the scenarios", "[sync]") {
  int scenarios = 0;
  for (const auto& file : std::filesystem::directory_iterator(DTRAIN_SCENARIOS)) {
    INFO(file.path());
    const Scenario scenario = replay(read_file(file.path().string()).value());
    scenarios++;
    if (std::getenv("DTRAIN_REWRITE_GOLDEN") != nullptr) {
      REQUIRE(write_file_atomic(file.path().string(), scenario.replayed).has_value());
    } else {
      CHECK(scenario.replayed == scenario.source);
    }
  }
  CHECK(scenarios >= 8);
}
