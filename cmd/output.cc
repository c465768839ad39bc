#include "output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace dtrain::cmd {

namespace {

tl::unexpected<Error> cannot_write() {
  return fail(Code::kUsage, "standard output cannot be written: {}", std::strerror(errno));
}

}  // namespace

Result<OutputFile> OutputFile::open(const std::string& path) {
  OutputFile output;
  if (path.empty()) return output;
  DT_TRY(AtomicFile file, AtomicFile::create(path));
  output.file_.emplace(std::move(file));
  return output;
}

Result<> OutputFile::write(std::string_view piece) {
  if (file_) return file_->write(piece);
  if (std::fwrite(piece.data(), 1, piece.size(), stdout) != piece.size()) return cannot_write();
  return {};
}

Result<> OutputFile::finish() {
  if (file_) return file_->commit();
  if (std::fflush(stdout) != 0) return cannot_write();
  return {};
}

}  // namespace dtrain::cmd
