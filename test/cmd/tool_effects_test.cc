// Each flag of each tool is followed to what it changes in a run of the program: a flag that is parsed and then used
// nowhere fails here. test/cmd/flag_effects_test.cc does it for the flags of training.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "command.h"
#include "effects_file.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"
#include "tool_runs.h"

using namespace dtrain;
using test::must, test::joined, test::Words;

namespace {

// The tool that the words begin with.
const cmd::CommandHelp& tool_of(const std::vector<cmd::CommandHelp>& tools, const Words& words) {
  const auto named = [&](const cmd::CommandHelp& tool) {
    return tool.words.size() <= words.size() && std::equal(tool.words.begin(), tool.words.end(), words.begin());
  };
  const auto tool = std::ranges::find_if(tools, named);
  REQUIRE(tool != tools.end());
  return *tool;
}

// The main spelling of a flag; empty if the tool does not have it.
std::string main_spelling(const cmd::CommandHelp& tool, const std::string& given) {
  const std::string spelling = given.substr(0, given.find('='));
  for (const job::FlagHelp& flag : tool.flags) {
    if (std::ranges::find(flag.names, spelling) != flag.names.end()) return flag.names.front();
  }
  return "";
}

// The names of what differs. If only one run printed JSON, or succeeded, its keys and threads are no news.
Words effects_of(const test::ToolRun& without, const test::ToolRun& with) {
  Words effects = test::differences(without.seen, with.seen);
  const bool both_print = without.seen.contains("stdout") == with.seen.contains("stdout");
  const bool both_succeed = without.succeeded == with.succeeded;
  std::erase_if(effects, [&](const std::string& name) {
    return (!both_print && name.starts_with("json.")) || (!both_succeed && name == "threads");
  });
  return effects;
}

// Runs each command line once.
class Runs {
 public:
  explicit Runs(std::string inputs) : inputs_(std::move(inputs)) {}
  const test::ToolRun& of(const Words& words) {
    auto found = made_.find(words);
    if (found == made_.end()) found = made_.emplace(words, test::run_tool(words, inputs_)).first;
    return found->second;
  }

 private:
  const std::string inputs_;
  std::map<Words, test::ToolRun> made_;
};

}  // namespace

// DTRAIN_REWRITE_GOLDEN=1 writes what differs today; read it as a diff.
TEST_CASE("each flag of a tool changes what the tool does, as tool_flags.txt says", "[cmd][tool-flags]") {
  const test::TempDir dir;
  test::make_inputs(dir.path());
  const std::vector<cmd::CommandHelp> tools = must(cmd::command_helps());
  const std::string path = std::string(DTRAIN_CMD_TEST_DIR) + "/tool_flags.txt";
  test::EffectsFile file = test::read_effects(path, dir.path());
  Runs runs(dir.path());
  std::set<std::string> followed;
  for (test::FlagCase& one : file.lines) {
    if (one.is_command) continue;
    const cmd::CommandHelp& tool = tool_of(tools, one.command);
    INFO("dtrain " << tool.name() << ": " << one.line);
    const std::string flag = main_spelling(tool, one.flag.at(0));
    REQUIRE(!flag.empty());
    followed.insert(tool.name() + " " + flag);
    if (!one.reason.empty()) continue;
    const Words before = joined(one.command, one.context);
    const test::ToolRun& without = runs.of(before);
    const test::ToolRun& with = runs.of(joined(before, one.flag));
    INFO("without:\n" << without.output << "with:\n" << with.output);
    const Words effects = effects_of(without, with);
    CHECK_FALSE(effects.empty());
    CHECK((without.succeeded || with.succeeded || without.seen.at("exit code") != with.seen.at("exit code")));
    if (std::getenv("DTRAIN_REWRITE_GOLDEN") != nullptr) one.effects = effects;
    CHECK(one.effects == effects);
  }
  for (const cmd::CommandHelp& tool : tools) {
    if (tool.name() == "train") continue;
    for (const job::FlagHelp& flag : tool.flags) {
      INFO("dtrain " << tool.name() << " " << flag.names.front() << " is not in tool_flags.txt");
      CHECK(followed.contains(tool.name() + " " + flag.names.front()));
    }
  }
  if (std::getenv("DTRAIN_REWRITE_GOLDEN") != nullptr) must(write_file_atomic(path, file.text()));
}
