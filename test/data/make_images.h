// Small images and record files for tests.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "data/records/image_record.h"
#include "data/records/record_file.h"
#include "data/sources/image_source.h"
#include "images/image.h"
#include "support/must.h"

namespace dtrain::test {

// Reads the only label of an image.
inline Result<float> read_label(const data::ImageSource& source, int64_t index, data::ReadScratch& scratch) {
  float label = 0;
  DT_TRY_VOID(source.read(index, scratch, {&label, 1}));
  return label;
}

// An image so smooth that its JPEG is like that of a photograph; a different one for every seed.
inline images::Image gradient_image(int height, int width, int channels, int seed) {
  images::Image image;
  image.resize(height, width, channels);
  for (int y = 0; y < height; y++) {
    for (int x = 0; x < width; x++) {
      for (int k = 0; k < channels; k++) {
        image.at(y, x)[k] =
            static_cast<uint8_t>(128 + (x * (3 + seed % 5) + y * (2 + k) + seed * 11 + (x * y) % 7) % 100);
      }
    }
  }
  return image;
}

// The value of each pixel gives its position: 16 y + x (mod 256), the same in all channels.
inline images::Image position_image(int height, int width, int channels) {
  images::Image image;
  image.resize(height, width, channels);
  for (int y = 0; y < height; y++) {
    for (int x = 0; x < width; x++) {
      for (int k = 0; k < channels; k++) image.at(y, x)[k] = static_cast<uint8_t>(16 * y + x);
    }
  }
  return image;
}

inline void write_bytes(const std::string& path, const std::vector<uint8_t>& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
}

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::vector<uint8_t> read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<uint8_t> image_payload(uint64_t id, float label, Bytes encoded) {
  std::vector<uint8_t> payload;
  data::append_image_record(payload, id, std::span(&label, 1), encoded);
  return payload;
}

// Writes a record file of `count` images; image i has the label i % classes. The images are lossless unless
// `extension` is .jpg. Returns the records' offsets.
inline std::vector<int64_t> write_record_file(const std::string& path, int count, int height, int width, int channels,
                                              int classes, const std::string& extension = ".png") {
  std::vector<uint8_t> file;
  std::vector<int64_t> offsets;
  for (int i = 0; i < count; i++) {
    const auto encoded = must(images::encode_image(gradient_image(height, width, channels, i), extension, 95));
    offsets.push_back(static_cast<int64_t>(file.size()));
    must(data::append_record(file, image_payload(static_cast<uint64_t>(i), static_cast<float>(i % classes), encoded)));
  }
  write_bytes(path, file);
  return offsets;
}

}  // namespace dtrain::test
