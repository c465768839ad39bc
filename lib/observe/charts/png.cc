// The content of the module dtrain_charts.
#include "observe/charts/png.h"

#include <cairo/cairo.h>

#include <cmath>

#include "base/printable.h"

namespace dtrain::observe {
namespace {

constexpr double kSideMax = 32'000;  // largest width and height, in pixels; Cairo's limit is 32,767

cairo_status_t append_png(void* closure, const unsigned char* data, unsigned int length) {
  static_cast<std::string*>(closure)->append(reinterpret_cast<const char*>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

tl::unexpected<Error> cannot_draw(cairo_status_t status) {
  return fail(Code::kData, "the chart cannot be drawn: {}", cairo_status_to_string(status));
}

// The text as Cairo accepts it: only UTF-8, without zero bytes.
std::string drawable(std::string_view text) {
  return printable(text, text.size() + 1);
}

class CairoCanvas final : public PngCanvas {
 public:
  CairoCanvas(int width, int height)
      : surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height)), context_(cairo_create(surface_)) {}
  ~CairoCanvas() override {
    cairo_destroy(context_);
    cairo_surface_destroy(surface_);
  }
  CairoCanvas(const CairoCanvas&) = delete;
  CairoCanvas& operator=(const CairoCanvas&) = delete;

  Result<> prepare(double scale);
  void line(std::span<const Point> points, const Pen& pen) override;
  void mark(Point center, Ink ink, int shape, std::string_view hint) override;
  void box(const Box& box, Ink ink, std::string_view hint) override;
  void text(Point at, std::string_view text, const TextStyle& style) override;
  double text_width(std::string_view text, const TextStyle& style) override;
  Result<std::string> finish() override;

 private:
  void set_ink(Ink ink);
  void set_font(const TextStyle& style);

  cairo_surface_t* surface_;
  cairo_t* context_;
};

Result<> CairoCanvas::prepare(double scale) {
  if (cairo_status(context_) != CAIRO_STATUS_SUCCESS) return cannot_draw(cairo_status(context_));
  set_ink({Ink::Kind::kPaper});
  cairo_paint(context_);
  cairo_scale(context_, scale, scale);
  return {};
}

void CairoCanvas::set_ink(Ink ink) {
  const uint32_t color = color_of(ink);
  cairo_set_source_rgb(context_, (color >> 16) / 255.0, (color >> 8 & 0xff) / 255.0, (color & 0xff) / 255.0);
}

void CairoCanvas::set_font(const TextStyle& style) {
  cairo_select_font_face(context_, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                         style.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(context_, style.size);
}

void CairoCanvas::line(std::span<const Point> points, const Pen& pen) {
  const auto& pattern = kDashPatterns[static_cast<size_t>(pen.dash) % kDashes];
  set_ink(pen.ink);
  cairo_set_line_width(context_, pen.width);
  cairo_set_line_join(context_, CAIRO_LINE_JOIN_ROUND);
  cairo_set_dash(context_, pattern.data(), pen.dash % kDashes == 0 ? 0 : static_cast<int>(pattern.size()), 0);
  cairo_new_path(context_);
  for (const Point& point : points) cairo_line_to(context_, point.x, point.y);
  cairo_stroke(context_);
}

void CairoCanvas::mark(Point center, Ink ink, int shape, std::string_view /*hint*/) {
  set_ink(ink);
  cairo_new_path(context_);
  switch (shape % 3) {
    case 0: cairo_arc(context_, center.x, center.y, 3, 0, 2 * M_PI); break;
    case 1: cairo_rectangle(context_, center.x - 2.8, center.y - 2.8, 5.6, 5.6); break;
    default:
      cairo_move_to(context_, center.x, center.y - 3.8);
      cairo_rel_line_to(context_, 3.8, 6.4);
      cairo_rel_line_to(context_, -7.6, 0);
      cairo_close_path(context_);
  }
  cairo_fill(context_);
}

void CairoCanvas::box(const Box& box, Ink ink, std::string_view /*hint*/) {
  set_ink(ink);
  cairo_rectangle(context_, box.x, box.y, box.width, box.height);
  cairo_fill(context_);
}

void CairoCanvas::text(Point at, std::string_view text, const TextStyle& style) {
  const double width = style.anchor == TextStyle::Anchor::kStart ? 0 : text_width(text, style);
  set_font(style);
  set_ink(style.ink);
  cairo_move_to(context_, at.x - (style.anchor == TextStyle::Anchor::kMiddle ? width / 2 : width), at.y);
  cairo_show_text(context_, drawable(text).c_str());
}

double CairoCanvas::text_width(std::string_view text, const TextStyle& style) {
  set_font(style);
  cairo_text_extents_t extents{};
  cairo_text_extents(context_, drawable(text).c_str(), &extents);
  return extents.x_advance;
}

Result<std::string> CairoCanvas::finish() {
  std::string bytes;
  cairo_status_t status = cairo_status(context_);
  if (status == CAIRO_STATUS_SUCCESS) {
    cairo_surface_flush(surface_);
    status = cairo_surface_write_to_png_stream(surface_, append_png, &bytes);
  }
  if (status != CAIRO_STATUS_SUCCESS) return cannot_draw(status);
  return bytes;
}

Result<std::unique_ptr<PngCanvas>> make_cairo_canvas(double width, double height, double scale) {
  if (width * scale > kSideMax || height * scale > kSideMax) {
    return fail(Code::kUsage,
                "a chart of {:.0f} x {:.0f} pixels is too large for PNG: plot fewer metrics, or write an SVG file",
                width * scale, height * scale);
  }
  auto canvas = std::make_unique<CairoCanvas>(static_cast<int>(std::ceil(width * scale)),
                                              static_cast<int>(std::ceil(height * scale)));
  DT_TRY_VOID(canvas->prepare(scale));
  return canvas;
}

}  // namespace

extern "C" {
extern const ChartsModule dtrain_charts_module;
const ChartsModule dtrain_charts_module = {.make_png_canvas = make_cairo_canvas};
}

}  // namespace dtrain::observe
