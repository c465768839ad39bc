// JPEG files of kinds that OpenCV does not write.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
// jpeglib.h needs stdio.h before it.
#include <jpeglib.h>

#include <vector>

namespace dtrain::test {

struct JpegKind {
  J_COLOR_SPACE from = JCS_RGB;      // of the pixels: JCS_GRAYSCALE, JCS_RGB or JCS_CMYK
  J_COLOR_SPACE stored = JCS_YCbCr;  // JCS_GRAYSCALE, JCS_YCbCr, JCS_CMYK or JCS_YCCK
  bool progressive = false;
  bool scan_for_each_coefficient = false;  // of three components: 1 + 3 x 63 scans
  int luma_h = 2, luma_v = 2;              // sampling factors of the first of three components; the others have 1
  int restart_rows = 0;                    // of MCUs between restart markers; 0: none
};

inline std::vector<jpeg_scan_info> scan_for_each_coefficient() {
  std::vector<jpeg_scan_info> scans = {{3, {0, 1, 2, 0}, 0, 0, 0, 0}};
  for (int component = 0; component < 3; component++) {
    for (int k = 1; k < 64; k++) scans.push_back({1, {component, 0, 0, 0}, k, k, 0, 0});
  }
  return scans;
}

// Makes a JPEG with libjpeg-turbo. `set_up(info)` sets its parameters, beginning from the defaults for pixels of the
// color space `from`; `sample(y, i)` gives number i of row y.
template <class SetUp, class Sample>
std::vector<uint8_t> encode_jpeg(int height, int width, J_COLOR_SPACE from, const SetUp& set_up, const Sample& sample) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&info, &memory, &bytes);
  info.image_height = static_cast<JDIMENSION>(height);
  info.image_width = static_cast<JDIMENSION>(width);
  info.in_color_space = from;
  info.input_components = from == JCS_GRAYSCALE ? 1 : from == JCS_RGB ? 3 : 4;
  jpeg_set_defaults(&info);
  set_up(info);
  jpeg_start_compress(&info, TRUE);
  std::vector<uint8_t> row(static_cast<size_t>(width) * static_cast<size_t>(info.input_components));
  for (int y = 0; y < height; y++) {
    for (size_t i = 0; i < row.size(); i++) row[i] = sample(y, i);
    JSAMPROW line = row.data();
    jpeg_write_scanlines(&info, &line, 1);
  }
  jpeg_finish_compress(&info);
  std::vector<uint8_t> file(memory, memory + bytes);
  jpeg_destroy_compress(&info);
  std::free(memory);
  return file;
}

// Makes a JPEG of a smooth image.
inline std::vector<uint8_t> make_jpeg(int height, int width, const JpegKind& kind) {
  const std::vector<jpeg_scan_info> scans = scan_for_each_coefficient();
  const auto set_up = [&](jpeg_compress_struct& info) {
    jpeg_set_colorspace(&info, kind.stored);
    if (info.num_components == 3) {
      info.comp_info[0].h_samp_factor = kind.luma_h;
      info.comp_info[0].v_samp_factor = kind.luma_v;
    }
    info.restart_in_rows = kind.restart_rows;
    if (kind.progressive) jpeg_simple_progression(&info);
    if (!kind.scan_for_each_coefficient) return;
    info.scan_info = scans.data();
    info.num_scans = static_cast<int>(scans.size());
  };
  return encode_jpeg(height, width, kind.from, set_up, [](int y, size_t i) {
    return static_cast<uint8_t>(40 + (3 * i + 5 * static_cast<size_t>(y)) % 200);
  });
}

// Changes the image size in the JPEG's header.
inline void announce_size(std::vector<uint8_t>& jpeg, int height, int width) {
  for (size_t i = 0; i + 9 < jpeg.size(); i++) {
    if (jpeg[i] != 0xff || (jpeg[i + 1] != 0xc0 && jpeg[i + 1] != 0xc2)) continue;
    jpeg[i + 5] = static_cast<uint8_t>(height >> 8);
    jpeg[i + 6] = static_cast<uint8_t>(height);
    jpeg[i + 7] = static_cast<uint8_t>(width >> 8);
    jpeg[i + 8] = static_cast<uint8_t>(width);
    return;
  }
}

}  // namespace dtrain::test
