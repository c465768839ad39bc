// What a process displays about its work while it runs: replaced repeatedly, and not part of the log. Also how lines
// for people are fitted to a terminal (base/console.h).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtrain {

struct Live {
  // Empty text: nothing is shown.
  Live(const char* what) : text(what) {}
  Live(std::string what = {}, std::optional<double> share = std::nullopt, std::vector<std::string> more = {})
      : text(std::move(what)), done(share), details(std::move(more)) {}

  std::string text;                  // one line; two blanks separate its parts
  std::optional<double> done;        // how much of the work is done, 0 to 1; a terminal shows it as a bar
  std::vector<std::string> details;  // one line each, the most important ones first; shown on terminals only
};

// The separator between the parts of a text.
inline constexpr std::string_view kBetweenParts = "  ";

// How a line is fitted to the width of a terminal.
enum class Fit {
  kAsIs,
  kWords,  // wrapped into several lines, at blanks outside quotes
  kParts,  // if the line is too wide, parts are left out from the right, except the first and the last; two blanks
           // separate parts
};

// Displays it in place of what was displayed before.
using ShowLive = std::function<void(Live)>;

}  // namespace dtrain
