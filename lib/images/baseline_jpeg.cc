#include "images/baseline_jpeg.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string_view>

#include "images/jpeg_pixels.h"

namespace dtrain::images {
namespace {

constexpr int kBlock = 8;  // rows and columns of a block

// Number of MCUs whose coefficients are in memory at a time: few enough to fit the L1 cache together with the Huffman
// tables.
constexpr int kMcus = 8;

int divide_up(int a, int b) {
  return (a + b - 1) / b;
}

bool is_one_to(const BaselineHeader::Component& component, int h, int v) {
  return component.h == h && component.v == v;
}

}  // namespace

bool BaselineJpeg::handles(const BaselineHeader& header) {
  constexpr int kWidthMin = 16;  // for rows of one or two samples, libjpeg-turbo does not interpolate the colors
  if (!has_jpeg_pixels() || header.width < kWidthMin) return false;
  const auto& components = header.components;
  if (components.size() == 1) return true;
  if (components.size() != 3 || !is_one_to(components[1], 1, 1) || !is_one_to(components[2], 1, 1)) return false;
  return is_one_to(components[0], 1, 1) || is_one_to(components[0], 2, 1) || is_one_to(components[0], 2, 2);
}

// Chooses the MCUs, and prepares the tables and the memory for them.
bool BaselineJpeg::prepare(const BaselineHeader& header, const Window& wanted) {
  // In a gray image, an MCU is one block, whatever the sampling factors are.
  const bool is_gray = header.components.size() == 1;
  h_ = is_gray ? 1 : header.components[0].h;
  v_ = is_gray ? 1 : header.components[0].v;
  // Color samples just outside of the part are needed to interpolate the colors in it.
  const int margin_x = h_ > 1 ? 2 * h_ : 0, margin_y = v_ > 1 ? 2 * v_ : 0;
  columns_ = {.begin = std::max(wanted.x - margin_x, 0) / (kBlock * h_),
              .end = divide_up(std::min(wanted.x + wanted.width + margin_x, header.width), kBlock * h_)};
  rows_ = {.begin = std::max(wanted.y - margin_y, 0) / (kBlock * v_),
           .end = divide_up(std::min(wanted.y + wanted.height + margin_y, header.height), kBlock * v_)};
  mcus_per_row_ = divide_up(header.width, kBlock * h_);
  std::vector<JpegScan::Component> components;
  for (size_t i = 0; i < header.components.size(); i++) {
    const BaselineHeader::Component& component = header.components[i];
    if (!dc_[component.dc].make(header.dc[component.dc], true)) return false;
    if (!ac_[component.ac].make(header.ac[component.ac], false)) return false;
    const int h = i == 0 ? h_ : 1, v = i == 0 ? v_ : 1;
    Plane& plane = planes_[i];
    plane.blocks.resize(kMcus * h, v);
    plane.stride = static_cast<size_t>((columns_.end - columns_.begin) * h * kBlock) + kPixelSlack;
    plane.rows = (v_ > 1 ? 2 : 1) * v * kBlock;  // interpolating rows also needs the rows of the MCUs above
    plane.samples.resize(plane.stride * static_cast<size_t>(plane.rows) + kPixelSlack);
    components.push_back({.h = h, .v = v, .dc = &dc_[component.dc], .ac = &ac_[component.ac], .blocks = &plane.blocks});
  }
  for (std::vector<uint8_t>& row : upsampled_) row.resize(planes_[0].stride + kPixelSlack);
  sums_.resize(planes_[0].stride + kPixelSlack);
  scan_.start(header.data, std::move(components), header.restart_interval);
  return true;
}

// Skips the rows of MCUs above the part, up to the last restart marker at the beginning of a row. Returns that row,
// or 0 if there is no such marker. Nullopt: the file is left to libjpeg-turbo.
std::optional<int> BaselineJpeg::skip_rows() {
  const int interval = header_->restart_interval;
  if (interval == 0) return 0;
  // Of `per_row` markers, one is at the beginning of a row. There is at least one MCU in a row.
  const int per_row = std::max(1, mcus_per_row_ / std::gcd(mcus_per_row_, interval));
  int markers = static_cast<int>(int64_t{rows_.begin} * mcus_per_row_ / interval);
  markers -= markers % per_row;
  if (!scan_.skip_restarts(markers)) return std::nullopt;
  return static_cast<int>(int64_t{markers} * interval / mcus_per_row_);
}

bool BaselineJpeg::read_mcus(int mcu_row) {
  for (int first = 0; first < mcus_per_row_; first += kMcus) {
    const int end = std::min(first + kMcus, mcus_per_row_);
    if (!scan_.read(end - first)) return false;
    const Range needed{.begin = std::max(first, columns_.begin), .end = std::min(end, columns_.end)};
    if (mcu_row >= rows_.begin && needed.begin < needed.end) transform(mcu_row, needed, first);
  }
  return true;
}

// Transforms blocks to samples. `first_mcu` is the first MCU in memory.
void BaselineJpeg::transform(int mcu_row, const Range& mcus, int first_mcu) {
  for (size_t i = 0; i < used_; i++) {
    Plane& plane = planes_[i];
    const int h = i == 0 ? h_ : 1, v = i == 0 ? v_ : 1;
    for (int row = 0; row < v; row++) {
      const int before = row * plane.blocks.per_row - first_mcu * h;
      const int begin = before + mcus.begin * h, last = before + mcus.end * h - 1;
      uint8_t* out = plane.row((mcu_row * v + row) * kBlock) + ptrdiff_t{mcus.begin - columns_.begin} * h * kBlock;
      // If the number of blocks is odd, the last block is its own partner, and is stored a second time after the end of
      // the row.
      for (int block = begin; block <= last; block += 2, out += ptrdiff_t{2} * kBlock) {
        const auto first = static_cast<size_t>(block), second = static_cast<size_t>(std::min(block + 1, last));
        const int16_t* const values = plane.blocks.values.data();
        transform_blocks(values + first * JpegBlocks::kSize, values + second * JpegBlocks::kSize,
                         header_->components[i].steps, std::max(plane.blocks.ends[first], plane.blocks.ends[second]),
                         out, out + kBlock, plane.stride);
      }
    }
  }
}

// The color samples for row y of the image, one for each pixel of the decoded columns.
const uint8_t* BaselineJpeg::color_row(Plane& plane, int y, std::vector<uint8_t>& memory) {
  if (h_ == 1) return plane.row(y);
  // Beyond the image's border, blocks have samples that do not belong to the image.
  const int count = std::min(columns_.end * kBlock, divide_up(header_->width, 2)) - columns_.begin * kBlock;
  if (v_ == 1) {
    upsample_row(plane.row(y), static_cast<size_t>(count), sums_.data(), memory.data());
    return memory.data();
  }
  const int near = y / 2, last = divide_up(header_->height, 2) - 1;
  const int far = std::clamp(y % 2 == 0 ? near - 1 : near + 1, 0, last);
  upsample_rows(plane.row(near), plane.row(far), static_cast<size_t>(count), sums_.data(), memory.data());
  return memory.data();
}

void BaselineJpeg::emit_row(int y, const Window& wanted, Image& out) {
  const auto count = static_cast<size_t>(wanted.width);
  const int skipped = wanted.x - columns_.begin * kBlock * h_;
  const uint8_t* const brightness = planes_[0].row(y) + skipped;
  uint8_t* const pixels = out.at(y - wanted.y, 0);
  if (out.channels == 1) {
    std::memcpy(pixels, brightness, count);
  } else if (used_ == 1) {
    for (size_t x = 0; x < count; x++) std::memset(pixels + 3 * x, brightness[x], 3);
  } else {
    const uint8_t* const blue = color_row(planes_[1], y, upsampled_[0]);
    const uint8_t* const red = color_row(planes_[2], y, upsampled_[1]);
    to_bgr(brightness, blue + skipped, red + skipped, count, pixels);
  }
}

bool BaselineJpeg::read(const BaselineHeader& header, const Window& wanted, int channels, Image& out) {
  header_ = &header;
  used_ = channels == 1 ? 1 : header.components.size();
  if (!prepare(header, wanted)) return false;
  out.resize(wanted.height, wanted.width, channels);
  const int mcu_rows = divide_up(header.height, kBlock * v_), end = wanted.y + wanted.height;
  int y = wanted.y;
  const std::optional<int> first = skip_rows();
  if (!first) return false;
  for (int row = *first; row < rows_.end; row++) {
    if (!read_mcus(row)) return false;
    if (row < rows_.begin) continue;
    // The last row of an MCU can be interpolated only with the first row of the next MCU.
    const int complete = row + 1 == mcu_rows ? header.height : (row + 1) * kBlock * v_ - (v_ > 1 ? 1 : 0);
    for (; y < std::min(complete, end); y++) emit_row(y, wanted, out);
  }
  if (rows_.end == mcu_rows) return scan_.ends_well();
  const std::string_view data(reinterpret_cast<const char*>(header.data.data()), header.data.size());
  return data.rfind("\xff\xd9") != std::string_view::npos;
}

}  // namespace dtrain::images
