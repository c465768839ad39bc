#include "job/command_line.h"

#include <CLI/CLI.hpp>
#include <map>
#include <set>

namespace dtrain::job {

namespace {

// Boolean flags with their value joined on: CLI11 cannot take a following word only if it is 0 or 1, and any other word
// may be a positional.
std::vector<std::string> join_booleans(const std::set<std::string>& booleans,
                                       const std::vector<std::string>& arguments) {
  std::vector<std::string> joined;
  for (size_t i = 0; i < arguments.size(); i++) {
    if (!booleans.contains(arguments[i])) {
      joined.push_back(arguments[i]);
      continue;
    }
    const bool has_value = i + 1 < arguments.size() && (arguments[i + 1] == "0" || arguments[i + 1] == "1");
    joined.push_back(arguments[i] + "=" + (has_value ? arguments[i + 1] : "1"));
    if (has_value) i++;
  }
  return joined;
}

// The values in the order of the command line: CLI11 keeps them option by option, and beside that the order of options.
std::vector<GivenFlag> in_order(const CLI::App& app, const std::map<const CLI::Option*, GivenFlag>& flag_of) {
  std::map<const CLI::Option*, size_t> taken;
  std::vector<GivenFlag> given;
  for (const CLI::Option* option : app.parse_order()) {
    GivenFlag flag = flag_of.at(option);
    flag.value = option->results().at(taken[option]++);
    given.push_back(std::move(flag));
  }
  return given;
}

}  // namespace

Result<CommandLine> read_command_line(const std::vector<Spellings>& flags, const std::vector<std::string>& arguments) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::set<std::string> booleans;
  std::map<const CLI::Option*, GivenFlag> flag_of;
  for (size_t flag = 0; flag < flags.size(); flag++) {
    // One option for each spelling: a few rewrite the value that comes with them.
    for (const Spelling& spelling : flags[flag]) {
      CLI::Option* option = app.add_option(spelling.text)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      flag_of[option] = {flag, spelling.text, ""};
      if (spelling.boolean) booleans.insert(spelling.text);
    }
  }
  std::vector<std::string> reversed = join_booleans(booleans, arguments);
  std::reverse(reversed.begin(), reversed.end());  // as App::parse wants them
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::Error& error) {
    return fail(Code::kUsage, "{}", error.what());
  }
  return CommandLine{in_order(app, flag_of), app.remaining()};
}

}  // namespace dtrain::job
