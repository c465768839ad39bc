// The colors of charts. Each has a contrast of at least 3 to 1 with the paper, in both variants, and adjacent colors
// can be distinguished by people with any kind of color blindness (after M. Okabe and K. Ito,
// https://jfly.uni-koeln.de/color/, made darker or lighter where the contrast was too low).
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace dtrain::observe {

struct Ink {
  enum class Kind : uint8_t { kText, kMuted, kGrid, kPaper, kSeries };
  Kind kind = Kind::kText;
  int number = 0;  // number of the series
};

inline constexpr int kSeriesColors = 9;
inline constexpr int kDashes = 4;
// Lengths of the strokes and gaps of each pattern; all zeros: a solid line.
inline constexpr std::array<std::array<double, 4>, kDashes> kDashPatterns = {
    {{0, 0, 0, 0}, {6, 3, 6, 3}, {2, 2.5, 2, 2.5}, {8, 3, 2, 3}}};

// The color of the ink as 0xRRGGBB, for light or dark paper.
uint32_t color_of(Ink ink, bool dark = false);
// The style sheet for charts in a page: it follows the reader's preference for light or dark, and is light when
// printed.
std::string page_style();
// The style sheet for a chart in a separate file, which is always light.
std::string file_style();

}  // namespace dtrain::observe
