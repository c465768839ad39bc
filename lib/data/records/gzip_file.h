// A file, plain or compressed with gzip, read from its beginning to its end.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"

struct gzFile_s;

namespace dtrain::data {

class GzipFile {
 public:
  // Code::kNotFound: there is no such file; kData: it cannot be opened.
  static Result<GzipFile> open(const std::string& path);

  // Fills `out` and returns the number of bytes read, which is smaller than `out` only at the end of the file.
  // Code::kData, with the path and the reason: the file is damaged, or is truncated.
  Result<size_t> read(std::span<uint8_t> out);

 private:
  GzipFile(std::string path, gzFile_s* file);
  Result<> check_end();
  tl::unexpected<Error> damaged();

  std::string path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile_s*)> file_;
};

}  // namespace dtrain::data
