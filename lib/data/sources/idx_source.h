// Images in idx-ubyte files, the format of MNIST (docs/formats.md, "MNIST files"). Files compressed with gzip are
// recognized by their first bytes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/sources/image_source.h"

namespace dtrain::data {

// The largest size of an uncompressed file that is read. MNIST's largest has 47 million bytes, EMNIST's 638 million.
constexpr uint64_t kIdxBytesMax = uint64_t{1} << 30;

// True if the name is a usual one for a file of images: it contains "images-idx3-ubyte" or "images.idx3-ubyte".
bool is_idx_images(std::string_view name);

// Facts about a set, from the headers and the labels.
struct IdxFacts {
  int64_t images = 0, rows = 0, columns = 0;
  std::vector<uint8_t> labels;
};
// Reads the header of the images and the whole file of labels, if one is named. Fails in the same cases as open_idx,
// but reads no pixels.
Result<IdxFacts> idx_facts(const std::string& images, const std::string& labels);

// Reads both files into memory, using no more memory than their headers announce. Without a file of labels (""), all
// labels are 0. Code::kNotFound; kData if a magic number or a size is wrong, a header announces more than kIdxBytesMax,
// or the numbers of images and labels differ.
Result<std::shared_ptr<const ImageSource>> open_idx(const std::string& images, const std::string& labels);

}  // namespace dtrain::data
