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
  std::function<std::optional<double>(const Options&)> smallest_number;
  bool boolean = false;
};

// `word` stands for the member's empty value: nothing, 0, an empty list or text.
template <class Options, class Member>
Binding<Options> bind(Member& (*access)(Options&), std::string word = "") {
  Binding<Options> binding;
  binding.boolean = std::is_same_v<Member, bool>;
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
  binding.smallest_number = [access](const Options& options) {
    return smallest(access(const_cast<Options&>(options)));
  };
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
  std::string default_text = {};          // for --help; empty: the value of Options{}
  std::vector<std::string> choices = {};  // if not empty: the texts that exist
  std::vector<std::string> later = {};    // texts that a later version has
  std::optional<double> least = {};       // of each number
  bool repeats = false;                   // given several times, all count
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
};

// One value that somebody gave to a flag.
struct Setting {
  size_t row;
  std::string spelling;
  std::string value;
};

// The refusal of `spelling` if it is in the list.
std::optional<Error> refusal(std::string_view spelling, const std::vector<RefusedFlag>& refused);
// "unknown flag '--num-epoc', did you mean '--num-epochs'?"
Error unknown_flag(std::string_view spelling, const std::vector<std::string>& spellings);
// Lines of --help for one flag.
std::string help_lines(const std::string& names, const std::string& help);
Result<> check_choice(std::string_view text, const std::vector<std::string>& choices,
                      const std::vector<std::string>& later);

template <class Options>
class FlagTable {
 public:
  FlagTable(std::vector<FlagRow<Options>> rows, std::vector<RefusedFlag> refused = {})
      : rows_(std::move(rows)), refused_(std::move(refused)) {}

  [[nodiscard]] const std::vector<FlagRow<Options>>& rows() const { return rows_; }

  // What reads a command line: flag i is row i.
  [[nodiscard]] std::vector<Spellings> spellings() const {
    std::vector<Spellings> all;
    for (const FlagRow<Options>& row : rows_) {
      Spellings& own = all.emplace_back();
      own.push_back({row.spelling(), row.bind.boolean});
      for (const Alias& alias : row.aliases) own.push_back({alias.spelling, row.bind.boolean || alias.boolean});
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
    if (std::optional<Error> refused = refusal(spelling, refused_)) return tl::unexpected(std::move(*refused));
    return tl::unexpected(unknown_flag(spelling, known));
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
    for (GivenFlag& given : line.given)
      settings.push_back({given.flag, std::move(given.spelling), std::move(given.value)});
    return settings;
  }

  // Sets one flag; the error names it.
  Result<> apply(const Setting& setting, Options& options) const {
    const FlagRow<Options>& row = rows_[setting.row];
    std::string value = setting.value;
    for (const Alias& alias : row.aliases) {
      if (alias.spelling == setting.spelling && alias.rewrite) value = alias.rewrite(value);
    }
    DT_TRY_VOID(named(setting.spelling, check_choice(value, row.choices, row.later)));
    DT_TRY_VOID(named(setting.spelling, row.bind.set(options, value)));
    const std::optional<double> smallest = row.bind.smallest_number(options);
    if (row.least && smallest && *smallest < *row.least) {
      return fail(Code::kUsage, "{}: {} is less than {}", setting.spelling, value, *row.least);
    }
    return {};
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
      text += help_lines(names, fmt::format("{} [{}]", row.help, shown));
    }
    return text;
  }

 private:
  static Result<> named(const std::string& spelling, Result<> result) {
    if (!result) result.error().message = spelling + ": " + result.error().message;
    return result;
  }

  std::vector<FlagRow<Options>> rows_;
  std::vector<RefusedFlag> refused_;
};

}  // namespace dtrain::job
