// Small data sets in all forms that dtrain reads, for tests. Record files: make_images.h.
#pragma once

#include <fmt/core.h>

#include <filesystem>
#include <initializer_list>
#include <string>

#include "cifar_batch.h"
#include "data/sources/locate.h"
#include "make_gzip.h"
#include "make_images.h"
#include "support/temp_dir.h"

namespace dtrain::test {

inline std::string big_endian(std::initializer_list<uint32_t> words) {
  std::string text;
  for (const uint32_t word : words) {
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(word >> shift);
  }
  return text;
}

// An idx file of images; image i has all pixels i.
inline std::string idx_images(uint32_t count, uint32_t rows = 2, uint32_t columns = 3) {
  std::string text = big_endian({0x803, count, rows, columns});
  for (uint32_t i = 0; i < count; i++) text.append(rows * columns, static_cast<char>(i));
  return text;
}
// An idx file of labels; label i is i % classes.
inline std::string idx_labels(uint32_t count, uint32_t classes = 10) {
  std::string text = big_endian({0x801, count});
  for (uint32_t i = 0; i < count; i++) text += static_cast<char>(i % classes);
  return text;
}

// Writes PREFIX-images-idx3-ubyte and PREFIX-labels-idx1-ubyte.
inline void write_idx(const std::string& directory, const std::string& prefix, uint32_t count, uint32_t edge,
                      uint32_t classes) {
  write_text(directory + "/" + prefix + "-images-idx3-ubyte", idx_images(count, edge, edge));
  write_text(directory + "/" + prefix + "-labels-idx1-ubyte", idx_labels(count, classes));
}

// MNIST's four files, two of them compressed, of 20 and 5 images.
inline void write_mnist(const TempDir& dir) {
  write_text(dir.path("train-images-idx3-ubyte"), idx_images(20, 28, 28));
  write_gzip(dir.path("train-labels-idx1-ubyte.gz"), idx_labels(20));
  write_gzip(dir.path("t10k-images-idx3-ubyte.gz"), idx_images(5, 28, 28));
  write_text(dir.path("t10k-labels-idx1-ubyte"), idx_labels(5));
}

// `count` images of CIFAR-10, or with coarse labels of CIFAR-100. The pixel bytes of image i are i, i + 1, ...
inline std::string cifar_text(int count, int classes, bool has_coarse = false) {
  std::string text;
  for (int i = 0; i < count; i++) {
    if (has_coarse) text += static_cast<char>(i % 20);
    text += static_cast<char>(i % classes);
    for (int k = 0; k < 3072; k++) text += static_cast<char>(i + k);
  }
  return text;
}

inline void write_cifar10(const std::string& directory) {
  std::filesystem::create_directories(directory);
  for (int i = 1; i <= 5; i++) write_text(fmt::format("{}/data_batch_{}.bin", directory, i), cifar_text(3 * i, 10));
  write_text(directory + "/test_batch.bin", cifar_text(4, 10));
}

// Writes images 0.png, 1.png, ... into a directory.
inline void write_images(const std::string& directory, int count, int height = 6, int width = 6) {
  std::filesystem::create_directories(directory);
  for (int i = 0; i < count; i++) {
    write_bytes(fmt::format("{}/{}.png", directory, i),
                must(images::encode_image(gradient_image(height, width, 3, i), ".png", 3)));
  }
}

inline data::DataFiles directory_of(const std::string& path) {
  data::DataFiles files;
  files.data_dir = path;
  return files;
}

}  // namespace dtrain::test
