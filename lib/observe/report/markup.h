// Pieces of HTML that several sections of a report use.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "observe/runs/run.h"

namespace dtrain::observe {

// A dash, used in place of an unknown text.
inline constexpr const char* kNone = "&ndash;";

// The text, escaped and shortened, or the dash if it is empty.
std::string cell(std::string_view text);

// Begins a part that scrolls horizontally, also with the keyboard, if it is too wide. The part ends with "</div>".
std::string scrolled(std::string_view name);

// A heading for one run; empty if there is only one run.
std::string heading(std::span<const Run> runs, const Run& run);

}  // namespace dtrain::observe
