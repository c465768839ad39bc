// The header of a baseline JPEG, taken from libjpeg-turbo after it has read the header.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "images/jpeg_scan.h"

struct jpeg_decompress_struct;

namespace dtrain::images {

// Refers to data of libjpeg-turbo's structure and of the file.
struct BaselineHeader {
  static constexpr size_t kTables = 4;
  struct Component {
    int h = 1, v = 1;                 // horizontal and vertical sampling factor
    const uint16_t* steps = nullptr;  // 64 quantization steps, row by row
    size_t dc = 0, ac = 0;            // indexes of the Huffman tables for DC and AC coefficients
  };
  int height = 0, width = 0;
  int restart_interval = 0;                // number of MCUs between restart markers; 0: there are no markers
  std::vector<Component> components = {};  // Y, or Y, Cb and Cr
  std::array<HuffmanCode, kTables> dc = {}, ac = {};
  Bytes data = {};  // data of the scan and everything after it, to the end of the file
};

// Called between jpeg_read_header and jpeg_start_decompress. Nullopt unless the file is a baseline JPEG, gray or YCbCr,
// that has all components in one scan and is decoded at its own size. `file` is the buffer that libjpeg-turbo reads.
std::optional<BaselineHeader> baseline_header(const jpeg_decompress_struct& info, Bytes file);

}  // namespace dtrain::images
