// Suggestions for "did you mean": the known name closest to a mistyped one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dtrain {

// The number of insertions, deletions, substitutions and swaps of adjacent letters that turn `a` into `b`, ignoring
// case (optimal string alignment distance).
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate with the smallest edit distance to `name`; the first one if several have it. Nullopt if the distance is
// more than a third of the name's length (a distance of 1 is always allowed), because a far-fetched suggestion
// confuses. The distance may be larger if the name may abbreviate the candidate: it has the same first letter and the
// same number at its end ("bf16", "bfloat16"). Also nullopt if `name` has more than 100 letters.
std::optional<std::string> nearest(std::string_view name, std::span<const std::string> candidates);

}  // namespace dtrain
