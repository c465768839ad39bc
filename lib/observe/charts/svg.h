// Charts as SVG: shapes with classes, which a style sheet colors (palette.h). Texts remain texts.
#pragma once

#include <string>
#include <string_view>

#include "observe/charts/canvas.h"

namespace dtrain::observe {

// Escapes text for HTML and SVG, including attribute values. Control characters are replaced by blanks, bytes that are
// not UTF-8 by U+FFFD.
std::string markup_text(std::string_view text);

class SvgCanvas final : public Canvas {
 public:
  void line(std::span<const Point> points, const Pen& pen) override;
  void mark(Point center, Ink ink, int shape, std::string_view hint) override;
  void box(const Box& box, Ink ink, std::string_view hint) override;
  void text(Point at, std::string_view text, const TextStyle& style) override;
  // Estimated from the widths of DejaVu Sans, which is wider than most fonts.
  double text_width(std::string_view text, const TextStyle& style) override;

  struct Frame {
    double width = 0, height = 0;
    std::string title, description;  // for people who cannot see the chart
    // Whether the drawing contains its style sheet, as a separate file must; a part of a page uses page_style().
    bool has_style = true;
  };
  // Returns the whole drawing.
  [[nodiscard]] std::string finish(const Frame& frame) const;

 private:
  std::string body_;
};

}  // namespace dtrain::observe
