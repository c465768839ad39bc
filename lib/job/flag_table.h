// A table of flags: one row a flag, from which the reader of command lines, --help, TOML files and texts are made, so
// that nothing about a flag is said twice. Options is the struct that the rows write to; training has one table
// (rows.h), each tool its own small one.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "job/command_line.h"
#include "job/value.h"

namespace dtrain::job {

enum class Scope { kProcess, kJob };  // of the job: part of the JobSpec

// A second name of a flag; `rewrite` turns the value that goes with it into the flag's own form.
struct Alias {
  Alias(const char* spelling) : spelling(spelling) {}  // NOLINT(google-explicit-constructor): rows list plain names
  Alias(const char* spelling, std::function<std::string(std::string_view)> rewrite, bool boolean = false)
      : spelling(spelling), boolean(boolean), rewrite(std::move(rewrite)) {}
  std::string spelling;  // with its dashes
  bool boolean = false;
  std::function<std::string(std::string_view)> rewrite;
};

inline std::vector<Alias> no_aliases() {
  return {};
}

// A member of Options as text. Made by DT_FIELD.
template <class Options>
struct Binding {
  std::function<Result<>(Options&, std::string_view)> set;
  std::function<std::string(const Options&)> get;
  std::function<std::optional<Extremes>(const Options&)> numbers = {};
  bool boolean = false;
  bool numeric = false;  // has numbers, which need a range
};

// `word` stands for the member's empty value: nothing, 0, an empty list or text.
template <class Options, class Member>
Binding<Options> bind(Member& (*access)(Options&), std::string word = "") {
  Binding<Options> binding;
  binding.boolean = std::is_same_v<Member, bool>;
  binding.numeric = IsNumeric<Member>::value;
  binding.set = [access, word](Options& options, std::string_view text) -> Result<> {
    if (word.empty() || text != word) return parse_value(text, access(options));
    access(options) = Member{};
    return {};
  };
  // `access` only names a member: nothing is written through it here.
  binding.get = [access, word](const Options& options) {
    const Member& member = access(const_cast<Options&>(options));
    return !word.empty() && member == Member{} ? word : format_value(member);
  };
  binding.numbers = [access](const Options& options) { return extremes(access(const_cast<Options&>(options))); };
  return binding;
}

#define DT_FIELD(Options, member, ...)                                     \
  ::dtrain::job::bind<Options, decltype(std::declval<Options&>().member)>( \
      [](Options& options) -> decltype(auto) { return (options.member); } __VA_OPT__(, ) __VA_ARGS__)

template <class Options>
struct FlagRow {
  std::string name;                           // without dashes
  std::vector<Alias> aliases = no_aliases();  // "= {}" crashes g++ 12.2
  std::string value = {};                     // what --help calls it: "N", "FILE"; booleans have none
  std::string help = {};
  Binding<Options> bind = {};
  std::string default_text = {};                // for --help; empty: the value of Options{}
  std::vector<std::string> choices = {};        // if not empty: the texts that exist
  std::vector<std::string> later = {};          // texts that a later version has
  std::optional<double> least = {}, most = {};  // of each number (seconds of a time); every numeric flag has both
  bool repeats = false;                         // given several times, all count
  Scope scope = Scope::kProcess;
  std::string environment = {};  // the variable to fall back to
  std::string section = {};      // --help's heading

  [[nodiscard]] std::string spelling() const { return (name.size() == 1 ? "-" : "--") + name; }
};

// Spelled so by the originals or by a later version: refused by name. "--kube-*" covers all that begin so.
struct RefusedFlag {
  std::vector<std::string> spellings;
  std::string message;  // after "--flag: "
  Code code = Code::kUsage;
  // The values that ask for nothing: at one of them the flag may stand in a command line that was made for another
  // program. "0" also as "0.0".
  std::vector<std::string> accepted = {};
  bool boolean = false;  // may stand without a value, then it is 1

  [[nodiscard]] bool accepts(std::string_view value) const;
};

// One value that somebody gave to a flag.
struct Setting {
  size_t row;
  std::string spelling;
  std::string value;
  int64_t line = 0;  // of the file that says so
};

// The flag of the list that `spelling` names; nullptr: none.
const RefusedFlag* find_refused(std::string_view spelling, const std::vector<RefusedFlag>& refused);
// "--gc-type: '2bit' is not in this version of dtrain; there is only 'none'"; with no value, of the flag as a whole.
Error refusal(std::string_view spelling, const RefusedFlag& flag, std::optional<std::string_view> value = {});
// "unknown flag '--num-epoc', did you mean '--num-epochs'?"
Error unknown_flag(std::string_view spelling, const std::vector<std::string>& spellings);
// "1 to 1048576; default 128", for --help; without limits only the default.
std::string range_and_default(std::optional<double> least, std::optional<double> most, std::string_view unit,
                              const std::string& default_text);
// Lines of --help for one flag.
std::string help_lines(const std::string& names, const std::string& help);
Result<> check_choice(std::string_view text, const std::vector<std::string>& choices,
                      const std::vector<std::string>& later);
// Code::kUsage: "4294967296 is more than 1048576".
Result<> check_range(std::string_view text, const Extremes& numbers, std::optional<double> least,
                     std::optional<double> most);

template <class Options>
class FlagTable {
 public:
  FlagTable(std::vector<FlagRow<Options>> rows, std::vector<RefusedFlag> refused = {})
      : rows_(std::move(rows)), refused_(std::move(refused)) {
    for (const FlagRow<Options>& row : rows_) {
      DT_CHECK(!row.bind.numeric || (row.least && row.most), "--{}: its numbers have no range", row.name);
      DT_CHECK(row.later.empty() || !row.choices.empty(), "--{}: only the values of later versions are listed",
               row.name);
    }
  }

  [[nodiscard]] const std::vector<FlagRow<Options>>& rows() const { return rows_; }

  // What reads a command line: flag i is row i; behind them stand the refused flags that take a value.
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

  // The flag that a TOML key or a spelling with dashes names, or why there is none.
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

  // What it means to give `value` to the flag; nothing if that asks for nothing (RefusedFlag::accepted).
  [[nodiscard]] Result<std::optional<Setting>> setting(const std::string& spelling, std::string value) const {
    const RefusedFlag* refused = find_refused(spelling, refused_);
    if (refused != nullptr && refused->accepts(value)) return std::nullopt;
    if (refused != nullptr) return tl::unexpected(refusal(spelling, *refused, value));
    DT_TRY(const size_t row, find(spelling));
    return Setting{row, spelling, std::move(value), 0};
  }

  // Reads arguments; those that are no flags and no values of flags are the positionals.
  Result<std::vector<Setting>> read(const std::vector<std::string>& arguments,
                                    std::vector<std::string>& positionals) const {
    DT_TRY(CommandLine line, read_command_line(spellings(), arguments));
    for (std::string& extra : line.extras) {
      if (extra.size() < 2 || extra[0] != '-') {
        positionals.push_back(std::move(extra));
        continue;
      }
      return tl::unexpected(std::move(find(extra.substr(0, extra.find('='))).error()));
    }
    std::vector<Setting> settings;
    for (GivenFlag& given : line.given) {
      DT_TRY(std::optional<Setting> one, setting(given.spelling, std::move(given.value)));
      if (one) settings.push_back(*std::move(one));
    }
    return settings;
  }

  // Sets one flag; the error names it.
  Result<> apply(const Setting& setting, Options& options) const {
    const FlagRow<Options>& row = rows_[setting.row];
    std::string value = setting.value;
    for (const Alias& alias : row.aliases) {
      if (alias.spelling == setting.spelling && alias.rewrite) value = alias.rewrite(value);
    }
    Result<> result = set(row, value, options);
    if (!result) result.error().message = setting.spelling + ": " + result.error().message;
    return result;
  }

  // Gives a flag the value that `text` is, if it is in the flag's range. The error does not name the flag.
  static Result<> set(const FlagRow<Options>& row, std::string_view text, Options& options) {
    DT_TRY_VOID(check_choice(text, row.choices, row.later));
    DT_TRY_VOID(row.bind.set(options, text));
    const std::optional<Extremes> numbers = row.bind.numbers ? row.bind.numbers(options) : std::nullopt;
    return numbers ? check_range(text, *numbers, row.least, row.most) : Result<>{};
  }

  [[nodiscard]] std::string help() const {
    const Options defaults{};
    std::string text, section;
    for (const FlagRow<Options>& row : rows_) {
      if (row.section != section) text += "\n" + row.section + "\n";
      section = row.section;
      std::string names = row.spelling();
      for (const Alias& alias : row.aliases) names += ", " + alias.spelling;
      if (!row.value.empty()) names += " " + row.value;
      const std::string shown = row.default_text.empty() ? row.bind.get(defaults) : row.default_text;
      text += help_lines(names, fmt::format("{} [{}]", row.help, in_brackets(row, shown)));
    }
    return text;
  }

 private:
  // A row with choices lists them as its value.
  static std::string in_brackets(const FlagRow<Options>& row, const std::string& shown) {
    if (!row.bind.numeric || !row.choices.empty()) return shown;
    const std::optional<Extremes> numbers = row.bind.numbers(Options{});
    return range_and_default(row.least, row.most, numbers ? numbers->unit : "", shown);
  }

  std::vector<FlagRow<Options>> rows_;
  std::vector<RefusedFlag> refused_;
};

}  // namespace dtrain::job
