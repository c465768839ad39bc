#include "images/augmentation/augmentation.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "images/image_header.h"

namespace dtrain::images {
namespace {

int draw_between(int64_t least, int64_t most, RandomStream& random) {
  return static_cast<int>(least + random.below(most - least + 1));
}

float draw_from(const Range& range, RandomStream& random) {
  return static_cast<float>(random.uniform(range.min, range.max));
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

// The position of a window of `size` in an image of size `from`: random if `anywhere`, else at the center.
Window place(const ImageSize& from, const ImageSize& size, bool anywhere, RandomStream& random) {
  const int64_t spare_y = from.height - size.height, spare_x = from.width - size.width;
  Window window{.y = static_cast<int>(spare_y / 2),
                .x = static_cast<int>(spare_x / 2),
                .height = static_cast<int>(size.height),
                .width = static_cast<int>(size.width)};
  if (!anywhere) return window;
  window.y = draw_between(0, spare_y, random);
  window.x = draw_between(0, spare_x, random);
  return window;
}

// Draws the geometric steps one after the other, and tracks the size of the image after each.
class GeometryDraw {
 public:
  GeometryDraw(const Distortion& distortion, ImageSize from, RandomStream& random)
      : distortion_(distortion), size_(from), random_(random) {}

  Result<> transform(const ImageSize& crop);
  Result<> crop(const ImageSize& to);
  std::vector<GeometryStep> take() { return std::move(steps_); }

 private:
  Result<> resize(const ImageSize& to) { return resize_by({to, distortion_.interpolation}); }
  Result<> resize_by(const FirstResize& to);
  Result<> warp();
  bool cut_by_area();
  Result<> cut_square();
  Result<> enlarge(const ImageSize& to);
  void cut(const Window& part);

  const Distortion& distortion_;
  ImageSize size_;
  RandomStream& random_;
  std::vector<GeometryStep> steps_;
};

Result<> GeometryDraw::resize_by(const FirstResize& to) {
  if (to.size == size_) return {};
  DT_TRY_VOID(check_image_size("resized", to.size.height, to.size.width), "resizing an image of {} x {}", size_.height,
              size_.width);
  steps_.emplace_back(Resize{to.size, choose(to.method, size_, to.size, random_)});
  size_ = to.size;
  return {};
}

Result<> GeometryDraw::warp() {
  const AffineMap map = affine_map(size_, draw_affine(distortion_, random_), distortion_);
  DT_TRY_VOID(check_image_size("transformed", map.height, map.width), "transforming an image of {} x {}", size_.height,
              size_.width);
  const ImageSize to{map.height, map.width};
  steps_.emplace_back(Warp{map, choose(distortion_.interpolation, size_, to, random_), distortion_.fill_value});
  size_ = to;
  return {};
}

Result<> GeometryDraw::transform(const ImageSize& crop) {
  DT_TRY_VOID(resize_by(first_resize(distortion_.resize, distortion_.interpolation, size_, crop)));
  if (distortion_.is_affine()) DT_TRY_VOID(warp());
  if (distortion_.pad > 0) {
    steps_.emplace_back(Border{distortion_.pad, distortion_.fill_value});
    size_ = {size_.height + 2 * distortion_.pad, size_.width + 2 * distortion_.pad};
  }
  return {};
}

void GeometryDraw::cut(const Window& part) {
  steps_.emplace_back(Cut{part});
  size_ = {part.height, part.width};
}

// Cuts out a random part of the image's area with a random shape. False if no shape fits after ten tries.
bool GeometryDraw::cut_by_area() {
  const double whole = static_cast<double>(size_.height) * static_cast<double>(size_.width);
  for (int i = 0; i < 10; i++) {
    const double area = whole * random_.uniform(distortion_.area.min, distortion_.area.max);
    const double ratio = random_.uniform(distortion_.aspect.min, distortion_.aspect.max);
    auto height = std::max<int64_t>(std::llround(std::sqrt(area / ratio)), 1);
    auto width = std::max<int64_t>(std::llround(std::sqrt(area * ratio)), 1);
    if (random_.below(2) == 1) std::swap(height, width);
    if (height > size_.height || width > size_.width) continue;
    cut(place(size_, {height, width}, true, random_));
    return true;
  }
  return false;
}

Result<> GeometryDraw::cut_square() {
  if (std::min(size_.height, size_.width) < distortion_.crop_size_max) {
    // Not kData: the image is sound, and leaving it out would hide that the flag is unsuitable.
    return fail(
        Code::kUsage,
        "the image of {} x {} is smaller than --max-crop-size {}: give a smaller --max-crop-size, or --resize {}",
        size_.height, size_.width, distortion_.crop_size_max, distortion_.crop_size_max);
  }
  const int edge = draw_between(distortion_.crop_size_min, distortion_.crop_size_max, random_);
  cut(place(size_, {edge, edge}, distortion_.random_crop, random_));
  return {};
}

// The length of the other edge after one edge is scaled from `from` to `to`. Computed in float to round like MXNet.
int64_t scaled_edge(int64_t from, int64_t to, int64_t other) {
  return static_cast<int64_t>(static_cast<float>(to) / static_cast<float>(from) * static_cast<float>(other));
}

Result<> GeometryDraw::enlarge(const ImageSize& to) {
  if (size_.height < to.height) {
    const int64_t columns = scaled_edge(size_.height, to.height, size_.width);
    DT_TRY_VOID(resize({to.height, std::max<int64_t>(columns, 1)}));
  }
  if (size_.width < to.width) {
    const int64_t rows = scaled_edge(size_.width, to.width, size_.height);
    DT_TRY_VOID(resize({std::max<int64_t>(rows, to.height), to.width}));
  }
  return {};
}

Result<> GeometryDraw::crop(const ImageSize& to) {
  bool is_cut = false;
  if (distortion_.random_resized_crop && !(distortion_.area.is_one() && distortion_.aspect.is_one())) {
    is_cut = cut_by_area();
  } else if (distortion_.crop_size_max > 0) {
    DT_TRY_VOID(cut_square());
    is_cut = true;
  }
  if (is_cut) return resize(to);
  DT_TRY_VOID(enlarge(to));
  cut(place(size_, to, distortion_.random_crop, random_));
  return {};
}

// A random integer between -max and max, truncated toward 0. Values near the two ends are less likely than those in the
// middle; -max and max themselves practically never occur.
int draw_offset(int max, RandomStream& random) {
  const double first = random.uniform(), second = random.uniform();
  return static_cast<int>((first + 4 * second) / 5 * 2 * max - max);
}

ColorJitter draw_jitter(const ColorDistortion& distortion, RandomStream& random) {
  ColorJitter jitter;
  jitter.brightness = 1 + random.uniform(-distortion.brightness, distortion.brightness);
  jitter.contrast = 1 + random.uniform(-distortion.contrast, distortion.contrast);
  jitter.saturation = 1 + random.uniform(-distortion.saturation, distortion.saturation);
  std::ranges::transform(permutation(3, random), jitter.order.begin(),
                         [](int64_t step) { return static_cast<ColorJitter::Step>(step); });
  return jitter;
}

}  // namespace

ColorChange draw_color_change(const ColorDistortion& distortion, RandomStream& random) {
  ColorChange drawn;
  if (distortion.jitters()) drawn.jitter = draw_jitter(distortion, random);
  if (distortion.shifts_hsl()) {
    HslShift& shift = drawn.hsl.emplace();
    shift.h = draw_offset(distortion.h_max, random);
    shift.s = draw_offset(distortion.s_max, random);
    shift.l = draw_offset(distortion.l_max, random);
  }
  if (distortion.pca_noise > 0) {
    for (double& amount : drawn.pca.emplace()) amount = distortion.pca_noise * random.normal();
  }
  return drawn;
}

AffineMap affine_map(ImageSize from, const AffineDraw& draw, const Distortion& distortion) {
  const double radians = draw.angle * std::numbers::pi / 180;
  const auto a = static_cast<float>(std::cos(radians)), b = static_cast<float>(std::sin(radians));
  const float s = draw.shear, hs = 2 * draw.scale / (1 + draw.ratio), ws = draw.ratio * hs;
  const auto rows = static_cast<float>(from.height), columns = static_cast<float>(from.width);
  const auto bounded = [&](float edge) {
    const auto least = static_cast<float>(distortion.img_size_min), most = static_cast<float>(distortion.img_size_max);
    return std::max(1.0f, std::max(least, std::min(most, edge)));
  };
  const float new_rows = bounded(draw.scale * rows), new_columns = bounded(draw.scale * columns);
  AffineMap map{{{hs * a - s * b * ws, hs * b + s * a * ws, 0}, {-b * ws, a * ws, 0}}, 0, 0};
  // These offsets keep the center in place.
  map.m[0][2] = (new_columns - (map.m[0][0] * columns + map.m[0][1] * rows)) / 2;
  map.m[1][2] = (new_rows - (map.m[1][0] * columns + map.m[1][1] * rows)) / 2;
  // The largest edge that is computed. It is far above the accepted limit, but small enough that an area of kEdgeMax x
  // kEdgeMax pixels can be represented.
  constexpr float kEdgeMax = 1 << 30;
  map.height = static_cast<int64_t>(std::min(new_rows, kEdgeMax));
  map.width = static_cast<int64_t>(std::min(new_columns, kEdgeMax));
  return map;
}

Result<Augmentation> draw_augmentation(const Distortion& distortion, ImageSize from, ImageSize to,
                                       RandomStream& random) {
  GeometryDraw geometry(distortion, from, random);
  DT_TRY_VOID(geometry.transform(to));
  DT_TRY_VOID(geometry.crop(to));
  Augmentation drawn{.geometry = geometry.take()};
  if (distortion.color.any()) drawn.color = draw_color_change(distortion.color, random);
  drawn.mirrored = distortion.random_mirror && random.below(2) == 1;
  if (distortion.changes_floats()) {
    drawn.contrast = static_cast<float>(1 + random.uniform(-distortion.random_contrast, distortion.random_contrast));
    drawn.light = static_cast<float>(random.uniform(-distortion.random_illumination, distortion.random_illumination));
  }
  return drawn;
}

}  // namespace dtrain::images
