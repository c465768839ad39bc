#include "data/geometry.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <opencv2/imgproc.hpp>

#include "data/mat.h"
#include "data/picture_header.h"

namespace dtrain::data {
namespace {

int draw_between(int least, int most, RandomStream& random) {
  return least + static_cast<int>(random.below(int64_t{most} - least + 1));
}

float draw_from(const Range& range, RandomStream& random) {
  return static_cast<float>(random.uniform(range.min, range.max));
}

Result<> resize(Picture& picture, const ImageSize& size, Interpolation method, RandomStream& random) {
  const Image& in = picture.image();
  if (in.height == size.height && in.width == size.width) return {};
  DT_TRY_VOID(
      resize_image(in, size.height, size.width, picture.next(), choose(method, in, size.height, size.width, random)));
  picture.advance();
  return {};
}

AffineDraw draw_affine(const Distortion& distortion, RandomStream& random) {
  AffineDraw draw;
  draw.shear = static_cast<float>(random.uniform(-distortion.shear_max, distortion.shear_max));
  draw.angle = draw_between(-distortion.rotate_max, distortion.rotate_max, random);
  if (distortion.rotate > 0) draw.angle = distortion.rotate;
  const std::vector<int>& list = distortion.rotate_list;
  if (!list.empty()) draw.angle = list[static_cast<size_t>(random.below(std::ssize(list)))];
  draw.scale = draw_from(distortion.scale, random);
  if (!distortion.random_resized_crop) draw.ratio = draw_from(distortion.aspect, random);
  return draw;
}

Result<> warp(const Distortion& distortion, Picture& picture, RandomStream& random) {
  const Image& in = picture.image();
  AffineMap map = affine_map(in.height, in.width, draw_affine(distortion, random), distortion);
  DT_TRY_VOID(check_picture_size("transformed", map.height, map.width), "transforming an image of {} x {}", in.height,
              in.width);
  const Interpolation method = choose(distortion.interpolation, in, map.height, map.width, random);
  Image& out = picture.next();
  out.resize(static_cast<int>(map.height), static_cast<int>(map.width), in.channels);
  cv::Mat target = view(out);
  try {
    cv::warpAffine(view(in), target, cv::Mat(2, 3, CV_32F, map.m), target.size(), static_cast<int>(method),
                   cv::BORDER_CONSTANT, cv::Scalar::all(distortion.fill_value));
  } catch (const cv::Exception& e) {  // an edge beyond 32766 pixels
    return fail(Code::kData, "an image of {} x {} cannot be transformed: {}", in.height, in.width, e.err);
  }
  picture.advance();
  return {};
}

void add_border(int border, int fill, Picture& picture) {
  const Image& in = picture.image();
  Image& out = picture.next();
  out.resize(in.height + 2 * border, in.width + 2 * border, in.channels);
  std::memset(out.pixels.data(), fill, out.pixels.size());
  const size_t row_bytes = static_cast<size_t>(in.width) * in.channels;
  for (int y = 0; y < in.height; y++) std::memcpy(out.at(y + border, border), in.at(y, 0), row_bytes);
  picture.advance();
}

// The corner of a part of height x width: anywhere in the picture, or in its center.
Corner place(const Image& image, int height, int width, bool anywhere, RandomStream& random) {
  const int spare_y = image.height - height, spare_x = image.width - width;
  if (!anywhere) return {spare_y / 2, spare_x / 2};
  const int y = draw_between(0, spare_y, random);
  return {y, draw_between(0, spare_x, random)};
}

// Cuts out a random part of the picture's area with a random shape. False if ten shapes did not fit.
bool cut_by_area(const Distortion& distortion, Picture& picture, RandomStream& random) {
  const Image& in = picture.image();
  const double whole = static_cast<double>(in.height) * in.width;
  for (int i = 0; i < 10; i++) {
    const double area = whole * random.uniform(distortion.area.min, distortion.area.max);
    const double ratio = random.uniform(distortion.aspect.min, distortion.aspect.max);
    auto height = std::max<int64_t>(std::llround(std::sqrt(area / ratio)), 1);
    auto width = std::max<int64_t>(std::llround(std::sqrt(area * ratio)), 1);
    if (random.below(2) == 1) std::swap(height, width);
    if (height > in.height || width > in.width) continue;
    const int rows = static_cast<int>(height), columns = static_cast<int>(width);
    cut(picture, place(in, rows, columns, true, random), rows, columns);
    return true;
  }
  return false;
}

Result<> cut_square(const Distortion& distortion, Picture& picture, RandomStream& random) {
  const Image& in = picture.image();
  if (std::min(in.height, in.width) < distortion.crop_size_max) {
    return fail(Code::kData, "the image of {} x {} is smaller than --max-crop-size {}", in.height, in.width,
                distortion.crop_size_max);
  }
  const int edge = draw_between(distortion.crop_size_min, distortion.crop_size_max, random);
  cut(picture, place(in, edge, edge, distortion.random_crop, random), edge, edge);
  return {};
}

// The other edge when one edge is scaled from `from` to `to`. Computed in float because MXNet rounds so.
int64_t scaled_edge(int from, int to, int other) {
  return static_cast<int64_t>(static_cast<float>(to) / static_cast<float>(from) * static_cast<float>(other));
}

Result<> enlarge(int height, int width, Interpolation method, Picture& picture, RandomStream& random) {
  if (picture.image().height < height) {
    const int64_t columns = scaled_edge(picture.image().height, height, picture.image().width);
    DT_TRY_VOID(resize(picture, {height, std::max<int64_t>(columns, 1)}, method, random));
  }
  if (picture.image().width < width) {
    const int64_t rows = scaled_edge(picture.image().width, width, picture.image().height);
    DT_TRY_VOID(resize(picture, {std::max<int64_t>(rows, height), width}, method, random));
  }
  return {};
}

}  // namespace

AffineMap affine_map(int height, int width, const AffineDraw& draw, const Distortion& distortion) {
  const double radians = draw.angle * std::numbers::pi / 180;
  const auto a = static_cast<float>(std::cos(radians)), b = static_cast<float>(std::sin(radians));
  const float s = draw.shear, hs = 2 * draw.scale / (1 + draw.ratio), ws = draw.ratio * hs;
  const auto rows = static_cast<float>(height), columns = static_cast<float>(width);
  const auto bounded = [&](float edge) {
    const auto least = static_cast<float>(distortion.img_size_min), most = static_cast<float>(distortion.img_size_max);
    return std::max(1.0f, std::max(least, std::min(most, edge)));
  };
  const float new_rows = bounded(draw.scale * rows), new_columns = bounded(draw.scale * columns);
  AffineMap map{{{hs * a - s * b * ws, hs * b + s * a * ws, 0}, {-b * ws, a * ws, 0}}, 0, 0};
  // The center stays where it is.
  map.m[0][2] = (new_columns - (map.m[0][0] * columns + map.m[0][1] * rows)) / 2;
  map.m[1][2] = (new_rows - (map.m[1][0] * columns + map.m[1][1] * rows)) / 2;
  // Far above what is accepted, but small enough that the square can be represented.
  constexpr float kEdgeMax = 1 << 30;
  map.height = static_cast<int64_t>(std::min(new_rows, kEdgeMax));
  map.width = static_cast<int64_t>(std::min(new_columns, kEdgeMax));
  return map;
}

Result<> transform(const Distortion& distortion, Picture& picture, RandomStream& random) {
  if (distortion.resize > 0) {
    const ImageSize size = size_of_shorter_edge(picture.image(), distortion.resize);
    DT_TRY_VOID(resize(picture, size, distortion.interpolation, random));
  }
  if (distortion.is_affine()) DT_TRY_VOID(warp(distortion, picture, random));
  if (distortion.pad > 0) add_border(distortion.pad, distortion.fill_value, picture);
  return {};
}

Result<Corner> find_crop(const Distortion& distortion, int height, int width, Picture& picture, RandomStream& random) {
  bool is_cut = false;
  if (distortion.random_resized_crop && !(distortion.area.is_one() && distortion.aspect.is_one())) {
    is_cut = cut_by_area(distortion, picture, random);
  } else if (distortion.crop_size_max > 0) {
    DT_TRY_VOID(cut_square(distortion, picture, random));
    is_cut = true;
  }
  if (is_cut) {
    DT_TRY_VOID(resize(picture, {height, width}, distortion.interpolation, random));
    return Corner{};
  }
  DT_TRY_VOID(enlarge(height, width, distortion.interpolation, picture, random));
  return place(picture.image(), height, width, distortion.random_crop, random);
}

Image& cut(Picture& picture, Corner corner, int height, int width) {
  const Image& in = picture.image();
  Image& out = picture.next();
  out.resize(height, width, in.channels);
  const size_t row_bytes = static_cast<size_t>(width) * in.channels;
  for (int y = 0; y < height; y++) std::memcpy(out.at(y, 0), in.at(corner.y + y, corner.x), row_bytes);
  return picture.advance();
}

}  // namespace dtrain::data
