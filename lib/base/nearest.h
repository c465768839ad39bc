// "Did you mean": the known name that a mistyped one was probably meant to be.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dtrain {

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`, letters' case not counted
// (optimal string alignment distance).
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate with the smallest distance to `name`, the first of equals; nothing if that differs in more than a third
// of the name's letters (one letter always may), which confuses more than it helps, or `name` has more than 100
// letters.
std::optional<std::string> nearest(std::string_view name, std::span<const std::string> candidates);

}  // namespace dtrain
