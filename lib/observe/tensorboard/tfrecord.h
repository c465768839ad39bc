// The framing of event files, TFRecord: each record is its length (8 bytes, little-endian), the masked CRC-32C of these
// 8 bytes, the data, and the masked CRC-32C of the data (4 bytes each).
// Source: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dtrain::observe {

// A checksum for data that may themselves contain checksums: the CRC-32C, rotated right by 15 bits, plus 0xa282ead8.
uint32_t masked_crc32c(std::string_view data);

std::string tfrecord(std::string_view data);

}  // namespace dtrain::observe
