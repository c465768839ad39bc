#include "images/contact_sheet.h"

#include <algorithm>
#include <cmath>
#include <opencv2/imgproc.hpp>

#include "images/image_header.h"
#include "images/mat.h"

namespace dtrain::images {
namespace {

constexpr int kGap = 4, kTextHeight = 14;
constexpr double kTextScale = 0.35;

std::string ascii(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

// The longest beginning of the text that is not wider than `width`.
std::string cut_to(std::string text, int width) {
  int baseline = 0;
  while (text.size() > 1 && cv::getTextSize(text, cv::FONT_HERSHEY_SIMPLEX, kTextScale, 1, &baseline).width > width) {
    text.pop_back();
  }
  return text;
}

cv::Mat in_color(const Image& image) {
  const cv::Mat pixels = view(image);
  cv::Mat color = pixels;
  if (image.channels == 1) cv::cvtColor(pixels, color, cv::COLOR_GRAY2BGR);
  if (image.channels == 4) cv::cvtColor(pixels, color, cv::COLOR_BGRA2BGR);
  return color;
}

}  // namespace

Result<Image> contact_sheet(const std::vector<SheetImage>& images) {
  DT_CHECK(!images.empty(), "a contact sheet needs at least one image");
  const Image& first = images.front().image;
  const auto columns = static_cast<int>(std::ceil(std::sqrt(static_cast<double>(images.size()))));
  const int rows = (static_cast<int>(images.size()) + columns - 1) / columns;
  const int64_t cell_width = first.width + kGap, cell_height = first.height + kTextHeight + kGap;
  const int64_t height = rows * cell_height + kGap, width = columns * cell_width + kGap;
  DT_TRY_VOID(check_image_size("a contact sheet", height, width));
  Image sheet;
  sheet.resize(static_cast<int>(height), static_cast<int>(width), 3);
  cv::Mat canvas = view(sheet);
  canvas.setTo(cv::Scalar::all(255));
  for (size_t i = 0; i < images.size(); i++) {
    const SheetImage& image = images[i];
    DT_CHECK(image.image.height == first.height && image.image.width == first.width,
             "the images of a contact sheet must have the same size");
    const int x = kGap + static_cast<int>(i) % columns * static_cast<int>(cell_width);
    const int y = kGap + static_cast<int>(i) / columns * static_cast<int>(cell_height);
    in_color(image.image).copyTo(canvas(cv::Rect(x, y, first.width, first.height)));
    cv::putText(canvas, cut_to(ascii(image.text), first.width + kGap), {x, y + first.height + kTextHeight - 4},
                cv::FONT_HERSHEY_SIMPLEX, kTextScale, cv::Scalar::all(0), 1, cv::LINE_AA);
  }
  return sheet;
}

}  // namespace dtrain::images
