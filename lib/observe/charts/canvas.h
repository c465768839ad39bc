// The surface on which charts are drawn. Lengths are in pixels, with the origin at the top left; a canvas may use
// several physical pixels for each of these pixels.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "observe/charts/chart.h"
#include "observe/charts/palette.h"

namespace dtrain::observe {

struct Pen {
  Ink ink;
  double width = 1;
  int dash = 0;
};

struct TextStyle {
  enum class Anchor : uint8_t { kStart, kMiddle, kEnd };
  double size = 12;
  Anchor anchor = Anchor::kStart;
  bool bold = false;
  Ink ink = {Ink::Kind::kText};
};

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
};

class Canvas {
 public:
  virtual ~Canvas() = default;
  virtual void line(std::span<const Point> points, const Pen& pen) = 0;
  // A mark in the color of a series; `shape` selects its form. If the canvas can, it shows `hint` when a pointer rests
  // on the mark.
  virtual void mark(Point center, Ink ink, int shape, std::string_view hint) = 0;
  virtual void box(const Box& box, Ink ink, std::string_view hint) = 0;
  // Draws a text whose baseline begins at `at`.
  virtual void text(Point at, std::string_view text, const TextStyle& style) = 0;
  virtual double text_width(std::string_view text, const TextStyle& style) = 0;
};

// `text`, shortened and followed by "..." if it is wider than `width_max`.
std::string fitted(Canvas& canvas, std::string_view text, const TextStyle& style, double width_max);

}  // namespace dtrain::observe
