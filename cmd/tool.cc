#include "tool.h"

namespace dtrain::cmd {

job::RefusedFlag later(std::vector<std::string> spellings) {
  return {std::move(spellings), "is not in this version of dtrain"};
}

void show_help(const Call& call, const std::string& usage, std::vector<job::FlagHelp> flags) {
  if (call.take_help) return call.take_help(usage, std::move(flags));
  std::fputs((usage + "\n" + job::help_lines(flags)).c_str(), stdout);
}

}  // namespace dtrain::cmd
