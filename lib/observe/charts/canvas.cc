#include "observe/charts/canvas.h"

#include "base/utf8.h"

namespace dtrain::observe {

std::string fitted(Canvas& canvas, std::string_view text, const TextStyle& style, double width_max) {
  if (canvas.text_width(text, style) <= width_max) return std::string(text);
  std::string cut(text);
  while (!cut.empty()) {
    do {
      cut.pop_back();
    } while (!cut.empty() && continues_character(cut.back()));
    // The last byte may be the first byte of a character whose other bytes were cut off.
    if (!cut.empty() && static_cast<unsigned char>(cut.back()) >= 0xc0) cut.pop_back();
    if (canvas.text_width(cut + "...", style) <= width_max) return cut + "...";
  }
  return cut;
}

}  // namespace dtrain::observe
