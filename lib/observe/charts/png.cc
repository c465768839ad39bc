#include "observe/charts/png.h"

#include <cairo/cairo.h>

#include <cmath>

#include "base/printable.h"

namespace dtrain::observe {
namespace {

constexpr double kSideMax = 32'000;  // pixels; Cairo's limit is 32,767

cairo_status_t append_png(void* closure, const unsigned char* data, unsigned int length) {
  static_cast<std::string*>(closure)->append(reinterpret_cast<const char*>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

tl::unexpected<Error> cannot_draw(cairo_status_t status) {
  return fail(Code::kData, "the picture cannot be drawn: {}", cairo_status_to_string(status));
}

// Cairo takes only UTF-8 without zeros.
std::string drawable(std::string_view text) {
  return printable(text, text.size() + 1);
}

}  // namespace

struct PngCanvas::Drawing {
  Drawing(int width, int height)
      : surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height)), context(cairo_create(surface)) {}
  ~Drawing() {
    cairo_destroy(context);
    cairo_surface_destroy(surface);
  }
  Drawing(const Drawing&) = delete;
  Drawing& operator=(const Drawing&) = delete;

  cairo_surface_t* surface;
  cairo_t* context;
};

PngCanvas::PngCanvas(std::unique_ptr<Drawing> drawing) : drawing_(std::move(drawing)) {}
PngCanvas::PngCanvas(PngCanvas&& other) noexcept = default;
PngCanvas::~PngCanvas() = default;

Result<PngCanvas> PngCanvas::create(double width, double height, double scale) {
  if (width * scale > kSideMax || height * scale > kSideMax) {
    return fail(Code::kUsage,
                "a picture of {:.0f} x {:.0f} pixels is too large for PNG: plot fewer metrics, or write an SVG file",
                width * scale, height * scale);
  }
  PngCanvas canvas(std::make_unique<Drawing>(static_cast<int>(std::ceil(width * scale)),
                                             static_cast<int>(std::ceil(height * scale))));
  cairo_t* const context = canvas.drawing_->context;
  if (cairo_status(context) != CAIRO_STATUS_SUCCESS) return cannot_draw(cairo_status(context));
  canvas.set_ink({Ink::Kind::kPaper});
  cairo_paint(context);
  cairo_scale(context, scale, scale);
  return canvas;
}

void PngCanvas::set_ink(Ink ink) {
  const uint32_t color = color_of(ink);
  cairo_set_source_rgb(drawing_->context, (color >> 16) / 255.0, (color >> 8 & 0xff) / 255.0, (color & 0xff) / 255.0);
}

void PngCanvas::set_font(const TextStyle& style) {
  cairo_select_font_face(drawing_->context, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                         style.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(drawing_->context, style.size);
}

void PngCanvas::line(std::span<const Point> points, const Pen& pen) {
  cairo_t* const context = drawing_->context;
  const auto& pattern = kDashPatterns[static_cast<size_t>(pen.dash) % kDashes];
  set_ink(pen.ink);
  cairo_set_line_width(context, pen.width);
  cairo_set_line_join(context, CAIRO_LINE_JOIN_ROUND);
  cairo_set_dash(context, pattern.data(), pen.dash % kDashes == 0 ? 0 : static_cast<int>(pattern.size()), 0);
  cairo_new_path(context);
  for (const Point& point : points) cairo_line_to(context, point.x, point.y);
  cairo_stroke(context);
}

void PngCanvas::mark(Point center, Ink ink, int shape, std::string_view /*hint*/) {
  cairo_t* const context = drawing_->context;
  set_ink(ink);
  cairo_new_path(context);
  switch (shape % 3) {
    case 0: cairo_arc(context, center.x, center.y, 3, 0, 2 * M_PI); break;
    case 1: cairo_rectangle(context, center.x - 2.8, center.y - 2.8, 5.6, 5.6); break;
    default:
      cairo_move_to(context, center.x, center.y - 3.8);
      cairo_rel_line_to(context, 3.8, 6.4);
      cairo_rel_line_to(context, -7.6, 0);
      cairo_close_path(context);
  }
  cairo_fill(context);
}

void PngCanvas::box(const Box& box, Ink ink, std::string_view /*hint*/) {
  set_ink(ink);
  cairo_rectangle(drawing_->context, box.x, box.y, box.width, box.height);
  cairo_fill(drawing_->context);
}

void PngCanvas::text(Point at, std::string_view text, const TextStyle& style) {
  const double width = style.anchor == TextStyle::Anchor::kStart ? 0 : text_width(text, style);
  set_font(style);
  set_ink(style.ink);
  cairo_move_to(drawing_->context, at.x - (style.anchor == TextStyle::Anchor::kMiddle ? width / 2 : width), at.y);
  cairo_show_text(drawing_->context, drawable(text).c_str());
}

double PngCanvas::text_width(std::string_view text, const TextStyle& style) {
  set_font(style);
  cairo_text_extents_t extents{};
  cairo_text_extents(drawing_->context, drawable(text).c_str(), &extents);
  return extents.x_advance;
}

Result<std::string> PngCanvas::finish() {
  std::string bytes;
  cairo_status_t status = cairo_status(drawing_->context);
  if (status == CAIRO_STATUS_SUCCESS) {
    cairo_surface_flush(drawing_->surface);
    status = cairo_surface_write_to_png_stream(drawing_->surface, append_png, &bytes);
  }
  if (status != CAIRO_STATUS_SUCCESS) return cannot_draw(status);
  return bytes;
}

}  // namespace dtrain::observe
