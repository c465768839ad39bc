#include "output.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace dtrain::cmd {

namespace {

tl::unexpected<Error> cannot_write() {
  return fail(Code::kUsage, "cannot write to standard output: {}", std::strerror(errno));
}

}  // namespace

Result<> flush_output() {
  if (std::fflush(stdout) != 0) return cannot_write();
  if (std::ferror(stdout) != 0) return fail(Code::kUsage, "a part of standard output could not be written");
  return {};
}

Result<> check_ending(std::string_view out, std::initializer_list<std::string_view> endings) {
  if (std::ranges::any_of(endings, [&](std::string_view ending) { return out.ends_with(ending); })) return {};
  return fail(Code::kUsage, "--out {}: the name must end in {}", out, fmt::join(endings, " or "));
}

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
  return file_ ? file_->commit() : flush_output();
}

}  // namespace dtrain::cmd
