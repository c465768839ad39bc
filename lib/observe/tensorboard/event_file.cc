#include "observe/tensorboard/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <tuple>

#include "base/write_all.h"
#include "observe/tensorboard/tfrecord.h"

namespace dtrain::observe {

Result<EventFile> EventFile::create(std::string path, Fault fault) {
  EventFile file(std::move(path), std::move(fault));
  DT_TRY_VOID(file.open());
  return file;
}

bool EventFile::injected(const char* call) const {
  const int number = fault_ ? fault_(call) : 0;
  if (number != 0) errno = number;
  return number != 0;
}

tl::unexpected<Error> EventFile::error() const {
  return fail(Code::kData, "cannot write '{}': {}", path_, std::strerror(errno));
}

Result<> EventFile::open() {
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), failed);
  if (failed) errno = failed.value();
  if (failed || injected("mkdir")) return error();
  if (!injected("open")) fd_ = UniqueFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd_.open()) return error();
  return {};
}

bool EventFile::write(std::string_view bytes) const {
  return !injected("write") && write_all(fd_.get(), bytes);
}

Result<> EventFile::append(std::string_view event) {
  const std::string record = tfrecord(event);
  if (!write(record)) {
    auto failed = error();
    std::ignore = ::ftruncate(fd_.get(), size_);  // removes an incomplete record, for whose rest readers would wait
    return failed;
  }
  size_ += static_cast<int64_t>(record.size());
  return {};
}

std::string event_file_name(int64_t seconds, const std::string& host, int64_t pid) {
  return fmt::format("events.out.tfevents.{:010}.{}.{}", seconds, host, pid);
}

}  // namespace dtrain::observe
