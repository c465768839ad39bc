// Charts as PNG, drawn by Cairo, always on light paper.
#pragma once

#include <memory>
#include <string>

#include "observe/charts/canvas.h"

namespace dtrain::observe {

class PngCanvas final : public Canvas {
 public:
  // `scale`: physical pixels for each pixel. Code::kUsage if the picture is larger than Cairo can draw.
  static Result<PngCanvas> create(double width, double height, double scale);
  PngCanvas(PngCanvas&& other) noexcept;
  PngCanvas& operator=(PngCanvas&&) = delete;
  ~PngCanvas() override;

  void line(std::span<const Point> points, const Pen& pen) override;
  void mark(Point center, Ink ink, int shape, std::string_view hint) override;
  void box(const Box& box, Ink ink, std::string_view hint) override;
  void text(Point at, std::string_view text, const TextStyle& style) override;
  double text_width(std::string_view text, const TextStyle& style) override;

  // The bytes of the file. Code::kData if Cairo failed, for example for lack of memory.
  Result<std::string> finish();

 private:
  struct Drawing;  // of Cairo
  explicit PngCanvas(std::unique_ptr<Drawing> drawing);
  void set_ink(Ink ink);
  void set_font(const TextStyle& style);

  std::unique_ptr<Drawing> drawing_;
};

}  // namespace dtrain::observe
