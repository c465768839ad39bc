// Reads PNG files back, with Cairo.
#pragma once

#include <cairo/cairo.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace dtrain::test {

struct Drawing {
  int width = 0, height = 0;
  std::vector<uint32_t> pixels;  // 0xRRGGBB

  [[nodiscard]] size_t count(uint32_t color) const {
    return static_cast<size_t>(std::count(pixels.begin(), pixels.end(), color));
  }
};

// An empty drawing if the bytes are no PNG.
inline Drawing read_png(const std::string& bytes) {
  struct Rest {
    const char* at;
    size_t count;
  } rest{bytes.data(), bytes.size()};
  const auto read = [](void* closure, unsigned char* data, unsigned int length) {
    Rest& from = *static_cast<Rest*>(closure);
    if (length > from.count) return CAIRO_STATUS_READ_ERROR;
    std::memcpy(data, from.at, length);
    from.at += length, from.count -= length;
    return CAIRO_STATUS_SUCCESS;
  };
  cairo_surface_t* const surface = cairo_image_surface_create_from_png_stream(read, &rest);
  Drawing drawing;
  if (cairo_surface_status(surface) == CAIRO_STATUS_SUCCESS) {
    drawing.width = cairo_image_surface_get_width(surface);
    drawing.height = cairo_image_surface_get_height(surface);
    const unsigned char* const data = cairo_image_surface_get_data(surface);
    for (int y = 0; y < drawing.height; y++) {
      const auto* row = reinterpret_cast<const uint32_t*>(data + y * cairo_image_surface_get_stride(surface));
      for (int x = 0; x < drawing.width; x++) drawing.pixels.push_back(row[x] & 0xffffff);
    }
  }
  cairo_surface_destroy(surface);
  return drawing;
}

}  // namespace dtrain::test
