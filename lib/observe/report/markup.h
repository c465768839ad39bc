// Pieces of HTML that several sections of a report have.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "observe/runs/run.h"

namespace dtrain::observe {

// A dash, in place of a text that is not known.
inline constexpr const char* kNone = "&ndash;";

// The text, escaped and shortened, or the dash if it is empty.
std::string cell(std::string_view text);

// The beginning of a part that scrolls to the side where it is too wide, also by keys. It ends with "</div>".
std::string scrolled(std::string_view name);

// A heading for each run, if there are several.
std::string heading(std::span<const Run> runs, const Run& run);

}  // namespace dtrain::observe
