#include "images/augmentation/geometry.h"

#include <cstring>
#include <opencv2/imgproc.hpp>

#include "images/mat.h"

namespace dtrain::images {
namespace {

// True if BilinearRows gives the same result as OpenCV. If both edges are halved, OpenCV averages areas instead.
bool is_plain_bilinear(const ImageSize& from, const Resize& resize) {
  const bool halves = from.height == 2 * resize.size.height && from.width == 2 * resize.size.width;
  return resize.method == Interpolation::kBilinear && !halves;
}

// The resize at the beginning of the steps, if BilinearRows can compute it, and the part of its result that is used:
// the part that a cut after it keeps, or all of it.
struct PartialResize {
  Resize resize;
  Window wanted;
  size_t steps;  // number of steps that this resize replaces
};
std::optional<PartialResize> partial_resize(std::span<const GeometryStep> steps, const ImageSize& from) {
  const Resize* resize = steps.empty() ? nullptr : std::get_if<Resize>(&steps[0]);
  if (resize == nullptr || !is_plain_bilinear(from, *resize)) return std::nullopt;
  const Cut* cut = steps.size() < 2 ? nullptr : std::get_if<Cut>(&steps[1]);
  if (cut == nullptr) return PartialResize{*resize, whole_image(resize->size), 1};
  return PartialResize{*resize, cut->part, 2};
}

// Carries out steps one after the other. Each step writes its result to the buffer that does not hold its input.
class Geometry {
 public:
  Geometry(const ImageView& image, ImageMemory& memory) : image_(image), memory_(memory) {}

  Result<CropRows> run(std::span<const GeometryStep> steps);

 private:
  Result<> carry_out(const Resize& resize);
  Result<> carry_out(const Warp& warp);
  Result<> carry_out(const Border& border);
  Result<> carry_out(const Cut& cut);
  void store(BilinearRows rows, const Window& wanted);

  [[nodiscard]] ImageSize size() const { return {image_.height, image_.width}; }
  [[nodiscard]] cv::Mat input() const {
    const cv::Rect rectangle(-image_.left, -image_.top, image_.width, image_.height);
    return view(*image_.image)(rectangle);
  }
  Image& output() { return image_.image == &memory_.first ? memory_.second : memory_.first; }
  void take_output() {
    const Image& made = output();
    image_ = {.image = &made, .height = made.height, .width = made.width};
  }

  ImageView image_;
  ImageMemory& memory_;
};

Result<CropRows> Geometry::run(std::span<const GeometryStep> steps) {
  while (!steps.empty()) {
    if (const auto partial = partial_resize(steps, size())) {
      BilinearRows rows(image_, partial->resize.size, partial->wanted, memory_.bilinear);
      steps = steps.subspan(partial->steps);
      if (steps.empty()) return CropRows(rows);
      store(rows, partial->wanted);
    } else {
      DT_TRY_VOID(std::visit([&](const auto& step) { return carry_out(step); }, steps[0]));
      steps = steps.subspan(1);
    }
  }
  return CropRows(image_);
}

void Geometry::store(BilinearRows rows, const Window& wanted) {
  Image& out = output();
  out.resize(wanted.height, wanted.width, image_.image->channels);
  const size_t row_bytes = static_cast<size_t>(out.width) * static_cast<size_t>(out.channels);
  for (int y = 0; y < out.height; y++) std::memcpy(out.at(y, 0), rows.row(y), row_bytes);
  take_output();
}

Result<> Geometry::carry_out(const Resize& resize) {
  Image& out = output();
  out.resize(static_cast<int>(resize.size.height), static_cast<int>(resize.size.width), image_.image->channels);
  cv::Mat target = view(out);
  try {
    cv::resize(input(), target, target.size(), 0, 0, static_cast<int>(resize.method));
  } catch (const cv::Exception& e) {
    return fail(Code::kData, "an image of {} x {} cannot be resized: {}", image_.height, image_.width, e.err);
  }
  take_output();
  return {};
}

Result<> Geometry::carry_out(const Warp& warp) {
  Image& out = output();
  out.resize(static_cast<int>(warp.map.height), static_cast<int>(warp.map.width), image_.image->channels);
  AffineMap map = warp.map;
  cv::Mat target = view(out);
  try {
    cv::warpAffine(input(), target, cv::Mat(2, 3, CV_32F, map.m), target.size(), static_cast<int>(warp.method),
                   cv::BORDER_CONSTANT, cv::Scalar::all(warp.fill));
  } catch (const cv::Exception& e) {  // OpenCV throws this for an edge of more than 32766 pixels
    return fail(Code::kData, "an image of {} x {} cannot be transformed: {}", image_.height, image_.width, e.err);
  }
  take_output();
  return {};
}

Result<> Geometry::carry_out(const Border& border) {
  Image& out = output();
  out.resize(image_.height + 2 * border.width, image_.width + 2 * border.width, image_.image->channels);
  std::memset(out.pixels.data(), border.fill, out.pixels.size());
  const size_t row_bytes = static_cast<size_t>(image_.width) * static_cast<size_t>(out.channels);
  for (int y = 0; y < image_.height; y++) {
    std::memcpy(out.at(y + border.width, border.width), image_.at(y, 0), row_bytes);
  }
  take_output();
  return {};
}

// Cuts by changing only the view of the pixels.
Result<> Geometry::carry_out(const Cut& cut) {
  image_.height = cut.part.height;
  image_.width = cut.part.width;
  image_.top -= cut.part.y;
  image_.left -= cut.part.x;
  return {};
}

}  // namespace

Window needed_part(std::span<const GeometryStep> steps, const ImageSize& from) {
  if (steps.empty()) return whole_image(from);
  if (const Cut* cut = std::get_if<Cut>(&steps[0])) return cut->part;
  const auto partial = partial_resize(steps, from);
  return partial ? BilinearRows::needed(from, partial->resize.size, partial->wanted) : whole_image(from);
}

Result<CropRows> make_crop(std::span<const GeometryStep> steps, OpenImage& image, ImageMemory& memory) {
  const ImageSize size = image.size();
  DT_TRY(const ImagePart part, image.pixels(needed_part(steps, size)));
  const ImageView view{.image = part.image,
                       .height = static_cast<int>(size.height),
                       .width = static_cast<int>(size.width),
                       .top = part.at.y,
                       .left = part.at.x};
  return Geometry(view, memory).run(steps);
}

}  // namespace dtrain::images
