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
  // With an empty text, nothing is shown.
  Live(const char* what) : text(what) {}
  Live(std::string what = {}, std::optional<double> share = std::nullopt, std::vector<std::string> more = {})
      : text(std::move(what)), done(share), details(std::move(more)) {}

  std::string text;                  // a single line; two blanks separate its parts
  std::optional<double> done;        // completed fraction of the work, 0 to 1; a terminal shows it as a bar
  std::vector<std::string> details;  // one line each, the most important lines first; shown on terminals only
};

// The separator between the parts of a text.
inline constexpr std::string_view kBetweenParts = "  ";

// How a line is fitted to the width of a terminal.
enum class Fit {
  kAsIs,
  kWords,  // wrapped into several lines, at blanks outside quotes
  // If the line is too wide, its parts are left out from the right, except the first and the last part; two blanks
  // separate parts.
  kParts,
};

// A function that displays a Live in place of the previous one.
using ShowLive = std::function<void(Live)>;

}  // namespace dtrain
