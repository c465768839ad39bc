#include "observe/charts/palette.h"

#include <fmt/core.h>

namespace dtrain::observe {
namespace {

struct Pair {
  uint32_t light, dark;
};

constexpr std::array<Pair, kSeriesColors> kSeries = {{{0x0072b2, 0x56b4e9},
                                                      {0xc94f00, 0xff9a4d},
                                                      {0x007a5a, 0x2fc796},
                                                      {0xa03d86, 0xe48fc8},
                                                      {0x8a6a00, 0xe0c04a},
                                                      {0x4d5a9e, 0xa9b4ff},
                                                      {0x6b6b6b, 0xbdbdbd},
                                                      {0x9b1c31, 0xff8095},
                                                      {0x303438, 0xf0f0f0}}};
constexpr Pair kText = {0x1c1e21, 0xe8e8e8}, kMuted = {0x5a5f66, 0xa9afb6}, kGrid = {0xdfe2e6, 0x3a3f45},
               kPaper = {0xffffff, 0x1b1d20};

Pair pair_of(Ink ink) {
  switch (ink.kind) {
    case Ink::Kind::kText: return kText;
    case Ink::Kind::kMuted: return kMuted;
    case Ink::Kind::kGrid: return kGrid;
    case Ink::Kind::kPaper: return kPaper;
    case Ink::Kind::kSeries: return kSeries[static_cast<size_t>(ink.number) % kSeriesColors];
  }
  return kText;
}

std::string colors(bool dark) {
  using Kind = Ink::Kind;
  std::string text;
  const auto add = [&](Ink ink, const std::string& name) {
    const uint32_t color = color_of(ink, dark);
    text += fmt::format(".chart .f{}{{fill:#{:06x}}}.chart .l{}{{stroke:#{:06x}}}\n", name, color, name, color);
  };
  add({Kind::kText}, "t");
  add({Kind::kMuted}, "m");
  add({Kind::kGrid}, "g");
  add({Kind::kPaper}, "p");
  for (int i = 0; i < kSeriesColors; i++) add({Kind::kSeries, i}, fmt::format("{}", i));
  return text;
}

constexpr const char* kShapes =
    ".chart{font-family:'DejaVu Sans',system-ui,'Segoe UI',Helvetica,Arial,sans-serif}\n"
    ".chart polyline{fill:none;stroke-linejoin:round;stroke-linecap:round}\n";

}  // namespace

uint32_t color_of(Ink ink, bool dark) {
  const Pair pair = pair_of(ink);
  return dark ? pair.dark : pair.light;
}

std::string page_style() {
  return kShapes + colors(false) + "@media screen and (prefers-color-scheme:dark){\n" + colors(true) + "}\n";
}

std::string file_style() {
  return kShapes + colors(false);
}

}  // namespace dtrain::observe
