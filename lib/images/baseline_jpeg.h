// Decodes the most common JPEGs faster than libjpeg-turbo: baseline, with one scan, gray or YCbCr, with the color at
// full or half resolution. The pixels equal those of libjpeg-turbo, bit for bit. Damaged and unusual files are left to
// libjpeg-turbo. docs/reference/speed.md has measurements.
//
// To decode a part of an image, the codes of the rows above the part must be read too, but only from the last restart
// marker above it that is at the beginning of a row of MCUs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "images/baseline_header.h"
#include "images/image.h"
#include "images/jpeg_scan.h"

namespace dtrain::images {

// Keeps its memory from image to image. Used by one thread at a time.
class BaselineJpeg {
 public:
  // True if read() can decode images of this kind, and the processor has the instructions for it.
  static bool handles(const BaselineHeader& header);

  // Decodes the part `wanted` to gray (`channels` 1) or color (3). Returns false if libjpeg-turbo should decode the
  // file instead, because the part or the end of the file is damaged, or contains something that encoders do not write.
  // `out` is then undefined.
  bool read(const BaselineHeader& header, const Window& wanted, int channels, Image& out);

 private:
  // The samples of one component in the decoded columns. Only the last rows are kept.
  struct Plane {
    JpegBlocks blocks;
    std::vector<uint8_t> samples;
    size_t stride = 0;
    int rows = 0;

    [[nodiscard]] uint8_t* row(int y) { return samples.data() + static_cast<size_t>(y % rows) * stride; }
  };
  struct Range {
    int begin = 0, end = 0;
  };

  bool prepare(const BaselineHeader& header, const Window& wanted);
  std::optional<int> skip_rows();
  bool read_mcus(int mcu_row);
  void transform(int mcu_row, const Range& mcus, int first_mcu);
  void emit_row(int y, const Window& wanted, Image& out);
  const uint8_t* color_row(Plane& plane, int y, std::vector<uint8_t>& memory);

  JpegScan scan_;
  std::array<HuffmanTable, BaselineHeader::kTables> dc_, ac_;
  std::array<Plane, 3> planes_;
  std::array<std::vector<uint8_t>, 2> upsampled_;  // one row of Cb and one row of Cr, as wide as a row of Y
  std::vector<int16_t> sums_;
  // The image that is being read.
  const BaselineHeader* header_ = nullptr;
  int h_ = 1, v_ = 1;  // number of samples of Y for each sample of Cb, horizontally and vertically
  int mcus_per_row_ = 0;
  Range columns_, rows_;  // the MCUs that are transformed to samples
  size_t used_ = 0;       // number of components that are transformed: 1 for gray
};

}  // namespace dtrain::images
