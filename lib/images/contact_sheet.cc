#include "images/contact_sheet.h"

#include <algorithm>
#include <cmath>
#include <opencv2/imgproc.hpp>

#include "images/mat.h"
#include "images/picture_header.h"

namespace dtrain::images {
namespace {

constexpr int kGap = 4, kTextHeight = 14;
constexpr double kTextScale = 0.35;

std::string ascii(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

// As much of the text as is not wider than `width`.
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

Result<Image> contact_sheet(const std::vector<SheetPicture>& pictures) {
  DT_CHECK(!pictures.empty(), "a sheet without pictures");
  const Image& first = pictures.front().image;
  const auto columns = static_cast<int>(std::ceil(std::sqrt(static_cast<double>(pictures.size()))));
  const int rows = (static_cast<int>(pictures.size()) + columns - 1) / columns;
  const int64_t cell_width = first.width + kGap, cell_height = first.height + kTextHeight + kGap;
  const int64_t height = rows * cell_height + kGap, width = columns * cell_width + kGap;
  DT_TRY_VOID(check_picture_size("a contact sheet", height, width));
  Image sheet;
  sheet.resize(static_cast<int>(height), static_cast<int>(width), 3);
  cv::Mat canvas = view(sheet);
  canvas.setTo(cv::Scalar::all(255));
  for (size_t i = 0; i < pictures.size(); i++) {
    const SheetPicture& picture = pictures[i];
    DT_CHECK(picture.image.height == first.height && picture.image.width == first.width, "pictures of different sizes");
    const int x = kGap + static_cast<int>(i) % columns * static_cast<int>(cell_width);
    const int y = kGap + static_cast<int>(i) / columns * static_cast<int>(cell_height);
    in_color(picture.image).copyTo(canvas(cv::Rect(x, y, first.width, first.height)));
    cv::putText(canvas, cut_to(ascii(picture.text), first.width + kGap), {x, y + first.height + kTextHeight - 4},
                cv::FONT_HERSHEY_SIMPLEX, kTextScale, cv::Scalar::all(0), 1, cv::LINE_AA);
  }
  return sheet;
}

}  // namespace dtrain::images
