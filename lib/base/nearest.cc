#include "base/nearest.h"

#include <algorithm>
#include <vector>

namespace dtrain {

namespace {

// Longest name that is compared; limited, because the time grows with the product of both lengths.
constexpr size_t kNameBytesMax = 100;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same(char a, char b) {
  return lower(a) == lower(b);
}

std::string_view digits_at_end(std::string_view name) {
  return name.substr(name.find_last_not_of("0123456789") + 1);
}

// True for "bf16" and "bfloat16", for example.
bool abbreviates(std::string_view name, std::string_view candidate) {
  const std::string_view digits = digits_at_end(name);
  return !digits.empty() && digits.size() < name.size() && digits == digits_at_end(candidate) &&
         same(name.front(), candidate.front());
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  // rows[i][j]: distance between the first i letters of a and the first j letters of b. Names are short, so the whole
  // table is cheap.
  std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); i++) rows[i][0] = i;
  for (size_t j = 0; j <= b.size(); j++) rows[0][j] = j;
  for (size_t i = 1; i <= a.size(); i++) {
    for (size_t j = 1; j <= b.size(); j++) {
      const size_t substituted = rows[i - 1][j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1);
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, substituted});
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1])) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows[a.size()][b.size()];
}

std::optional<std::string> nearest(std::string_view name, std::span<const std::string> candidates) {
  if (name.size() > kNameBytesMax) return std::nullopt;
  size_t best = std::max<size_t>(1, name.size() / 3) + 1;
  std::optional<std::string> found;
  for (const std::string& candidate : candidates) {
    // Turning the name into such a long candidate needs at least `best` insertions.
    if (candidate.size() >= name.size() + best) continue;
    const size_t distance = edit_distance(name, candidate);
    if (distance >= best) continue;
    best = distance;
    found = candidate;
  }
  if (found) return found;
  const auto meant = std::ranges::find_if(
      candidates, [&](const std::string& candidate) { return !candidate.empty() && abbreviates(name, candidate); });
  return meant == candidates.end() ? std::nullopt : std::optional(*meant);
}

}  // namespace dtrain
