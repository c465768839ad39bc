// Trains lenet for a short time with the built program on generated images, and compares the resulting weights.
#pragma once

#include <string>
#include <vector>

#include "support/temp_dir.h"
#include "tensor/ndarray_file.h"

namespace dtrain::test {

// Writes MNIST files with these images in this order. Each image is noise with a bar; its label, number % 10,
// decides where the bar is.
void write_mnist(const std::string& directory, const std::vector<size_t>& numbers);

// Writes MNIST files with these images and labels. An image has 28 * 28 pixels.
struct Image {
  std::string pixels;
  char label = 0;
};
void write_mnist(const std::string& directory, const std::vector<Image>& images);

// Trains one epoch on the data in the subdirectory `name` of `dir`, in the order of the files, and returns the saved
// weights. `more` are flags, which must include the batch size. REQUIREs that training succeeds.
std::vector<NamedArray> train_lenet(const TempDir& dir, const std::string& name, const std::vector<std::string>& more);

// |a - b| / |b|, over all arrays together.
double relative_difference(const std::vector<NamedArray>& a, const std::vector<NamedArray>& b);
bool same_bits(const std::vector<NamedArray>& a, const std::vector<NamedArray>& b);

}  // namespace dtrain::test
