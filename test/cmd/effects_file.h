// The files that say what each flag changes. Lines are of four kinds:
//
//   # a comment                   at the beginning of the file
//   dtrain simulate FLAGS         the command, for the flags below, until the next such line
//   --flag VALUE | CONTEXT        a flag with a value that is not its default; CONTEXT: more flags, with and without it
//       NAME                      what differs with the flag
//       ! REASON                  why nothing that the test sees differs, and what sees it
#pragma once

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "support/must.h"

namespace dtrain::test {

using Words = std::vector<std::string>;

struct FlagCase {
  std::string line;         // as in the file
  Words command = {};       // "simulate", FLAGS
  Words flag, context;      // "--lr-factor", "0.5"; "--lr-factor-epoch", "2"
  Words effects = {};       // the names of what differs
  std::string reason = {};  // why there is none
  bool is_command = false;  // a line that only names the command
};

struct EffectsFile {
  std::string head;
  std::vector<FlagCase> lines;

  [[nodiscard]] std::string text() const {
    std::string text = head;
    for (const FlagCase& one : lines) {
      text += one.line + "\n";
      for (const std::string& effect : one.effects) text += "    " + effect + "\n";
      if (!one.reason.empty()) text += "    ! " + one.reason + "\n";
    }
    return text;
  }
};

// The words of a text. {dir} is replaced by `dir`.
inline Words words_of(std::string text, const std::string& dir) {
  constexpr std::string_view kPlaceholder = "{dir}";
  for (size_t at = 0; (at = text.find(kPlaceholder, at)) != std::string::npos;) {
    text.replace(at, kPlaceholder.size(), dir);
  }
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

inline Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

inline EffectsFile read_effects(const std::string& path, const std::string& dir) {
  constexpr std::string_view kIndent = "    ", kCommand = "dtrain ";
  EffectsFile file;
  Words command;
  std::istringstream stream(must(read_file(path)));
  for (std::string line; std::getline(stream, line);) {
    const std::string body = line.starts_with(kIndent) ? line.substr(kIndent.size()) : "";
    if (line.starts_with('#')) {
      file.head += line + "\n";
    } else if (line.starts_with(kCommand)) {
      command = words_of(line.substr(kCommand.size()), dir);
      file.lines.push_back({.line = line, .command = command, .flag = {}, .context = {}, .is_command = true});
    } else if (body.empty()) {
      const size_t bar = std::min(line.find(" | "), line.size());
      const std::string context = bar == line.size() ? "" : line.substr(bar + 3);
      file.lines.push_back({.line = line,
                            .command = command,
                            .flag = words_of(line.substr(0, bar), dir),
                            .context = words_of(context, dir)});
    } else if (body.starts_with("! ")) {
      file.lines.back().reason = body.substr(2);
    } else {
      file.lines.back().effects.push_back(body);
    }
  }
  return file;
}

}  // namespace dtrain::test
