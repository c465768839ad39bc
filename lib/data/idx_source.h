// Pictures in idx-ubyte files, as MNIST is handed out (formats.md 4.1); gzip is recognised by its first bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/image_source.h"

namespace dtrain::data {

// Reads both files whole. Code::kNotFound; kData if a magic number or a size is wrong, or the counts do not agree.
Result<std::shared_ptr<const ImageSource>> open_idx(const std::string& images, const std::string& labels);

// The content of `path`, decompressed if it is gzip. At most `bytes_max` bytes, else Code::kData.
Result<std::vector<uint8_t>> read_maybe_gzip(const std::string& path, int64_t bytes_max);

}  // namespace dtrain::data
