#include "job/flags/command_line.h"

#include <algorithm>
#include <map>
#include <optional>

namespace dtrain::job {

namespace {

struct Known {
  size_t flag;
  bool boolean;
};

class ArgumentReader {
 public:
  ArgumentReader(const std::vector<Spellings>& flags, const std::vector<std::string>& arguments)
      : arguments_(arguments) {
    for (size_t flag = 0; flag < flags.size(); flag++) {
      for (const Spelling& spelling : flags[flag]) known_[spelling.text] = {flag, spelling.boolean};
    }
  }

  Result<CommandLine> read() {
    while (next_ < arguments_.size()) DT_TRY_VOID(read_one());
    return std::move(line_);
  }

 private:
  Result<> read_one() {
    const std::string& argument = arguments_[next_];
    if (const auto found = known_.find(argument); found != known_.end()) return read_flag(argument, found->second);
    const std::optional<size_t> joined = joined_value(argument);
    if (joined) {
      const std::string spelling = argument.substr(0, *joined);
      const size_t value = argument.compare(*joined, 1, "=") == 0 ? *joined + 1 : *joined;
      line_.given.push_back({known_.at(spelling).flag, spelling, argument.substr(value), next_, 1});
    } else {
      line_.extras.push_back(argument);
    }
    next_++;
    return {};
  }

  // Reads a flag that is a whole word. Its value, if it takes one, is the next word.
  Result<> read_flag(const std::string& spelling, const Known& known) {
    GivenFlag given{known.flag, spelling, "1", next_, 1};
    const std::string* word = next_ + 1 < arguments_.size() ? &arguments_[next_ + 1] : nullptr;
    if (!known.boolean && (word == nullptr || is_flag(*word))) {
      return fail(Code::kUsage, "{}: the value is missing{}", spelling,
                  word == nullptr ? "" : fmt::format("; the next word, '{}', is a flag", *word));
    }
    if (!known.boolean || (word != nullptr && (*word == "0" || *word == "1"))) {
      given.value = *word;
      given.words = 2;
    }
    next_ += given.words;
    line_.given.push_back(std::move(given));
    return {};
  }

  // Negative numbers are values, not flags.
  [[nodiscard]] bool is_flag(const std::string& word) const {
    return (word.size() > 2 && word.starts_with("--")) || known_.contains(word);
  }

  // The length of the flag's spelling, if `argument` is a known flag with its value joined on: "--lr=1", "-n=2", "-n2".
  [[nodiscard]] std::optional<size_t> joined_value(const std::string& argument) const {
    const size_t equals = argument.find('=');
    if (equals != std::string::npos && known_.contains(argument.substr(0, equals))) return equals;
    const bool is_short = argument.size() > 2 && argument[0] == '-' && argument[1] != '-';
    const bool lacks_dash = known_.contains("-" + argument.substr(0, equals));  // "-network" is not "-n etwork"
    if (is_short && !lacks_dash && known_.contains(argument.substr(0, 2))) return 2;
    return std::nullopt;
  }

  const std::vector<std::string>& arguments_;
  std::map<std::string, Known> known_;
  size_t next_ = 0;
  CommandLine line_;
};

}  // namespace

Result<CommandLine> read_command_line(const std::vector<Spellings>& flags, const std::vector<std::string>& arguments) {
  return ArgumentReader(flags, arguments).read();
}

bool asks_for_help(const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [](const std::string& word) { return word == "--help" || word == "-h"; });
}

}  // namespace dtrain::job
