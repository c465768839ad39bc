// What a process shows of its work while it lasts: replaced again and again, and no part of the log; and how lines for
// people are fitted to a terminal (base/console.h).
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

  std::string text;                  // one line; two blanks stand between its parts
  std::optional<double> done;        // how much of the work is done, 0 to 1; a terminal shows it as a bar
  std::vector<std::string> details;  // one line each, the most important ones first; shown on terminals only
};

// Stands between the parts of a text.
inline constexpr std::string_view kBetweenParts = "  ";

// How a line is fitted to the width of a terminal.
enum class Fit {
  kAsIs,
  kWords,  // broken into several lines, at blanks outside quotes
  kParts,  // parts with two blanks between them are left out: all but the first and the last one, from the right
};

// Shows it somewhere, instead of what was shown there before.
using ShowLive = std::function<void(Live)>;

}  // namespace dtrain
