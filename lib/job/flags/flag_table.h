// A table of flags, with one row per flag. Command lines, TOML files, --help and the text forms all use it, so nothing
// about a flag is stated twice. Options is the struct whose members the flags set. Training has one table (rows.h);
// each tool has its own small one.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "job/flags/command_line.h"
#include "job/flags/value.h"

namespace dtrain::job {

enum class Scope { kProcess, kJob };  // kJob: the flag is part of the JobSpec

// Another name of a flag. `rewrite`, if set, converts the value given with this name into the flag's own form.
struct Alias {
  Alias(const char* spelling) : spelling(spelling) {}  // NOLINT(google-explicit-constructor): rows list plain names
  Alias(const char* spelling, std::function<std::string(std::string_view)> rewrite, bool boolean = false)
      : spelling(spelling), boolean(boolean), rewrite(std::move(rewrite)) {}
  std::string spelling;  // the flag's name with its dashes
  bool boolean = false;
  std::function<std::string(std::string_view)> rewrite;
};

inline std::vector<Alias> no_aliases() {
  return {};
}

// Sets and gets one member of Options as text. Made by DT_FIELD.
template <class Options>
struct Binding {
  std::function<Result<>(Options&, std::string_view)> set;
  std::function<std::string(const Options&)> get;
  std::function<std::optional<NumberRange>(const Options&)> numbers = {};
  bool boolean = false;
  bool numeric = false;                 // the values are numbers; the row must give their range
  std::vector<std::string> names = {};  // all values, if Member is an enumeration
  std::string word = {};                // the text of the member's empty value; empty: none
};

// `word` is the text of the member's empty value (nullopt, 0, an empty list or text), for example "none".
template <class Options, class Member>
Binding<Options> bind(Member& (*access)(Options&), std::string word = "") {
  Binding<Options> binding;
  binding.word = word;
  binding.boolean = std::is_same_v<Member, bool>;
  binding.numeric = IsNumeric<Member>::value;
  if constexpr (std::is_enum_v<Member>) {
    for (const auto& named : names_of(Member{})) binding.names.emplace_back(named.name);
  }
  binding.set = [access, word](Options& options, std::string_view text) -> Result<> {
    if (word.empty() || text != word) return parse_value(text, access(options));
    access(options) = Member{};
    return {};
  };
  // const_cast: `access` only selects a member; nothing is written through it here.
  binding.get = [access, word](const Options& options) {
    const Member& member = access(const_cast<Options&>(options));
    return !word.empty() && member == Member{} ? word : format_value(member);
  };
  binding.numbers = [access](const Options& options) { return range_of(access(const_cast<Options&>(options))); };
  return binding;
}

#define DT_FIELD(Options, member, ...)                                     \
  ::dtrain::job::bind<Options, decltype(std::declval<Options&>().member)>( \
      [](Options& options) -> decltype(auto) { return (options.member); } __VA_OPT__(, ) __VA_ARGS__)

template <class Options>
struct FlagRow {
  std::string name;                           // the flag's name without its dashes
  std::vector<Alias> aliases = no_aliases();  // "= {}" crashes g++ 12.2
  std::string value = {};                     // the value's placeholder in --help: "N", "FILE"; none for booleans
  std::string help = {};
  std::string brief = {};  // for the first screen of --help, where `help` is too long
  Binding<Options> bind = {};
  std::string default_text = {};             // the default in --help; empty: the value in Options{}
  std::vector<std::string> choices = {};     // if not empty: the only valid texts
  std::vector<std::string> later = {};       // texts that will be valid in a later version
  std::optional<double> min = {}, max = {};  // range of each number (of a time in seconds); required if numeric
  bool may_be_empty = false;                 // an empty text is accepted as "no path", because MXNet's scripts pass one
  bool repeats = false;                      // whether the flag may be given several times; all values count
  Scope scope = Scope::kProcess;
  std::string environment = {};               // the environment variable that is the fallback
  std::string section = {};                   // the heading in --help
  std::vector<std::string> suggestions = {};  // examples of values, for shell completion

  [[nodiscard]] std::string spelling() const { return (name.size() == 1 ? "-" : "--") + name; }
};

// A flag of the programs that dtrain replaces, or of a later version, that is refused with a message of its own. The
// spelling "--kube-*" matches all flags with that prefix.
struct RefusedFlag {
  std::vector<std::string> spellings;
  std::string message;  // the end of a sentence about the flag or its value: "is not in this version of dtrain"
  Code code = Code::kUsage;
  // Values with which the flag has no effect. With one of them it is accepted and ignored, because command lines made
  // for another program contain such flags. Numbers are compared by value: "0.0" matches "0".
  std::vector<std::string> accepted = {};
  bool boolean = false;  // the value may be omitted and is then 1

  [[nodiscard]] bool accepts(std::string_view value) const;
};

// One value that was given to a flag.
struct Setting {
  size_t row;
  std::string spelling;
  std::string value;
  int64_t line = 0;  // line number in the file that sets the flag; 0: not set by a file
};

// The flag in `refused` that `spelling` matches; null if there is none.
const RefusedFlag* find_refused(std::string_view spelling, const std::vector<RefusedFlag>& refused);
// "--gc-type: '2bit' is not in this version of dtrain; accepted: 'none'". Without a value, the message is about the
// flag itself.
Error refusal(std::string_view spelling, const RefusedFlag& flag, std::optional<std::string_view> value = {});
// Whether a value with this placeholder in --help is a path: a file, a directory, a prefix of files, or a model, which
// is one of these.
bool is_path(std::string_view placeholder);
// Returns the error "--config: the value is empty: give FILE, or leave out the flag". `none`: the text that means "no
// path"; may be empty.
Error empty_path(std::string_view spelling, std::string_view placeholder, std::string_view none);
// For example: "unknown flag '--num-epoc', did you mean '--num-epochs'?"
Error unknown_flag(std::string_view spelling, const std::vector<std::string>& spellings);
// Returns a text for --help such as "1 to 1048576; default: 128"; only the default if there are no limits.
std::string range_and_default(std::optional<double> min, std::optional<double> max, std::string_view unit,
                              const std::string& default_text);
// Code::kUsage if `text` is one of `later`, or if `choices` is not empty and lacks it.
Result<> check_choice(std::string_view text, const std::vector<std::string>& choices,
                      const std::vector<std::string>& later);
// Code::kUsage: "4294967296 is more than 1048576".
Result<> check_range(std::string_view text, const NumberRange& numbers, std::optional<double> min,
                     std::optional<double> max);

template <class Options>
class FlagTable {
 public:
  FlagTable(std::vector<FlagRow<Options>> rows, std::vector<RefusedFlag> refused = {})
      : rows_(std::move(rows)), refused_(std::move(refused)) {
    for (const FlagRow<Options>& row : rows_) {
      DT_CHECK(!row.bind.numeric || (row.min && row.max), "--{}: the row of a numeric flag lacks its range", row.name);
      DT_CHECK(row.later.empty() || !row.choices.empty(), "--{}: only the values of later versions are listed",
               row.name);
    }
  }

  [[nodiscard]] const std::vector<FlagRow<Options>>& rows() const { return rows_; }

  // The spellings for read_command_line: flag i is row i. After the rows come the refused flags that are accepted with
  // some value.
  [[nodiscard]] std::vector<Spellings> spellings() const {
    std::vector<Spellings> all;
    for (const FlagRow<Options>& row : rows_) {
      Spellings& own = all.emplace_back();
      own.push_back({row.spelling(), row.bind.boolean});
      for (const Alias& alias : row.aliases) own.push_back({alias.spelling, row.bind.boolean || alias.boolean});
    }
    for (const RefusedFlag& flag : refused_) {
      if (flag.accepted.empty()) continue;
      Spellings& own = all.emplace_back();
      for (const std::string& spelling : flag.spellings) own.push_back({spelling, flag.boolean});
    }
    return all;
  }

  // The index of the row with this spelling (with dashes). An error says why there is none: refused, or unknown.
  [[nodiscard]] Result<size_t> find(const std::string& spelling) const {
    std::vector<std::string> known;
    for (size_t i = 0; i < rows_.size(); i++) {
      known.push_back(rows_[i].spelling());
      for (const Alias& alias : rows_[i].aliases) known.push_back(alias.spelling);
      if (std::find(known.end() - 1 - static_cast<int64_t>(rows_[i].aliases.size()), known.end(), spelling) !=
          known.end())
        return i;
    }
    if (const RefusedFlag* refused = find_refused(spelling, refused_)) {
      return tl::unexpected(refusal(spelling, *refused));
    }
    return tl::unexpected(unknown_flag(spelling, known));
  }

  // The setting that gives `value` to the flag; nullopt if the flag is accepted and ignored (RefusedFlag::accepted).
  [[nodiscard]] Result<std::optional<Setting>> setting(const std::string& spelling, std::string value) const {
    const RefusedFlag* refused = find_refused(spelling, refused_);
    if (refused != nullptr && refused->accepts(value)) return std::nullopt;
    if (refused != nullptr) return tl::unexpected(refusal(spelling, *refused, value));
    DT_TRY(const size_t row, find(spelling));
    return Setting{row, spelling, std::move(value), 0};
  }

  // Reads arguments. Appends to `positionals` those that are neither flags nor values of flags, and all arguments after
  // "--".
  Result<std::vector<Setting>> read(const std::vector<std::string>& arguments,
                                    std::vector<std::string>& positionals) const {
    DT_TRY(CommandLine line, read_command_line(spellings(), arguments));
    const auto end_of_flags = std::find(line.extras.begin(), line.extras.end(), "--");
    for (auto extra = line.extras.begin(); extra != line.extras.end(); extra++) {
      const bool is_flag = extra < end_of_flags && extra->size() > 1 && extra->front() == '-';
      if (is_flag) return tl::unexpected(std::move(find(extra->substr(0, extra->find('='))).error()));
      if (extra != end_of_flags) positionals.push_back(std::move(*extra));
    }
    std::vector<Setting> settings;
    for (GivenFlag& given : line.given) {
      DT_TRY(std::optional<Setting> one, setting(given.spelling, std::move(given.value)));
      if (one) settings.push_back(*std::move(one));
    }
    return settings;
  }

  // Sets one flag. An error names the flag.
  Result<> apply(const Setting& setting, Options& options) const {
    const FlagRow<Options>& row = rows_[setting.row];
    std::string value = setting.value;
    for (const Alias& alias : row.aliases) {
      if (alias.spelling == setting.spelling && alias.rewrite) value = alias.rewrite(value);
    }
    if (value.empty() && is_path(row.value) && !row.may_be_empty) {
      return tl::unexpected(empty_path(setting.spelling, row.value, row.bind.word));
    }
    Result<> result = set(row, value, options);
    if (!result) result.error().message = setting.spelling + ": " + result.error().message;
    return result;
  }

  // Sets a flag to the value that `text` denotes. Fails if it is not a choice of the flag or not in its range; the
  // error does not name the flag.
  static Result<> set(const FlagRow<Options>& row, std::string_view text, Options& options) {
    DT_TRY_VOID(check_choice(text, row.choices, row.later));
    DT_TRY_VOID(row.bind.set(options, text));
    const std::optional<NumberRange> numbers = row.bind.numbers ? row.bind.numbers(options) : std::nullopt;
    return numbers ? check_range(text, *numbers, row.min, row.max) : Result<>{};
  }

  // The flags as --help lists them, in order.
  [[nodiscard]] std::vector<FlagHelp> flag_helps() const {
    const Options defaults{};
    std::vector<FlagHelp> all;
    for (const FlagRow<Options>& row : rows_) {
      std::vector<std::string> names = {row.spelling()};
      for (const Alias& alias : row.aliases) names.push_back(alias.spelling);
      const std::string shown = row.default_text.empty() ? row.bind.get(defaults) : row.default_text;
      all.push_back({.names = std::move(names),
                     .value = row.value,
                     .help = row.help,
                     .brief = row.brief.empty() ? row.help : row.brief,
                     .default_text = shown,
                     .limits = in_brackets(row, shown),
                     .values = !row.choices.empty()      ? row.choices
                               : !row.bind.names.empty() ? row.bind.names
                                                         : row.suggestions,
                     .environment = row.environment,
                     .section = row.section});
    }
    return all;
  }

 private:
  // The range and the default; only the default if the row has no numbers or lists its choices.
  static std::string in_brackets(const FlagRow<Options>& row, const std::string& shown) {
    if (!row.bind.numeric || !row.choices.empty()) return "default: " + shown;
    const std::optional<NumberRange> numbers = row.bind.numbers(Options{});
    return range_and_default(row.min, row.max, numbers ? numbers->unit : "", shown);
  }

  std::vector<FlagRow<Options>> rows_;
  std::vector<RefusedFlag> refused_;
};

}  // namespace dtrain::job
