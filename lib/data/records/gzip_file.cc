#include "data/records/gzip_file.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace dtrain::data {

GzipFile::GzipFile(std::string path, gzFile_s* file) : path_(std::move(path)), file_(file, gzclose_r) {}

Result<GzipFile> GzipFile::open(const std::string& path) {
  GzipFile opened(path, gzopen(path.c_str(), "rbe"));
  if (opened.file_) return opened;
  return fail(errno == ENOENT ? Code::kNotFound : Code::kData, "{}: {}", path,
              errno == ENOENT ? "no such file" : std::strerror(errno));
}

Result<size_t> GzipFile::read(std::span<uint8_t> out) {
  constexpr size_t kStep = size_t{1} << 20;
  size_t have = 0;
  while (have < out.size()) {
    const int got = gzread(file_.get(), out.data() + have, static_cast<unsigned>(std::min(out.size() - have, kStep)));
    if (got < 0) return damaged();
    if (got == 0) {
      DT_TRY_VOID(check_end());
      break;
    }
    have += static_cast<size_t>(got);
  }
  return have;
}

// Checks that a compressed file is complete. Only gzerror() at the end of the file reveals that a part is missing.
Result<> GzipFile::check_end() {
  int status = Z_OK;
  gzerror(file_.get(), &status);
  return status == Z_OK || status == Z_STREAM_END ? Result<>() : damaged();
}

tl::unexpected<Error> GzipFile::damaged() {
  int status = Z_OK;
  const char* const reason = gzerror(file_.get(), &status);
  if (status == Z_ERRNO) return fail(Code::kData, "{}: {}", path_, std::strerror(errno));
  return fail(Code::kData, "{}: damaged gzip file ({})", path_, status == Z_BUF_ERROR ? "it ends early" : reason);
}

}  // namespace dtrain::data
