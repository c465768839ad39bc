#include "job/flag_table.h"

#include "base/nearest.h"

namespace dtrain::job {

namespace {

constexpr size_t kHelpColumn = 34;
constexpr size_t kHelpWidth = 118;

bool matches(std::string_view pattern, std::string_view spelling) {
  if (pattern.ends_with('*')) return spelling.starts_with(pattern.substr(0, pattern.size() - 1));
  return spelling == pattern;
}

}  // namespace

std::optional<Error> refusal(std::string_view spelling, const std::vector<RefusedFlag>& refused) {
  for (const RefusedFlag& flag : refused) {
    for (const std::string& pattern : flag.spellings) {
      if (matches(pattern, spelling)) return Error{flag.code, fmt::format("{}: {}", spelling, flag.message), {}};
    }
  }
  return std::nullopt;
}

Error unknown_flag(std::string_view spelling, const std::vector<std::string>& spellings) {
  const std::optional<std::string> near = nearest(spelling, spellings);
  const std::string guess = near ? fmt::format(", did you mean '{}'?", *near) : "; --help lists all flags";
  return Error{Code::kUsage, fmt::format("unknown flag '{}'{}", spelling, guess), {}};
}

std::string help_lines(const std::string& names, const std::string& help) {
  std::string text = "  " + names;
  size_t column = text.size();
  if (column + 2 > kHelpColumn) {
    text += "\n";
    column = 0;
  }
  text += std::string(kHelpColumn - column, ' ');
  column = kHelpColumn;
  for (size_t begin = 0; begin < help.size();) {
    const size_t end = std::min(help.find(' ', begin), help.size());
    if (column + (end - begin) > kHelpWidth && column > kHelpColumn) {
      text += "\n" + std::string(kHelpColumn, ' ');
      column = kHelpColumn;
    }
    if (column > kHelpColumn) {
      text += " ";
      column++;
    }
    text += help.substr(begin, end - begin);
    column += end - begin;
    begin = end + 1;
  }
  return text + "\n";
}

Result<> check_choice(std::string_view text, const std::vector<std::string>& choices,
                      const std::vector<std::string>& later) {
  if (std::find(later.begin(), later.end(), text) != later.end()) {
    return fail(Code::kUsage, "'{}' is not in this version of dtrain; there are: {}", text, fmt::join(choices, ", "));
  }
  if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end()) {
    return unknown_choice(text, choices);
  }
  return {};
}

}  // namespace dtrain::job
