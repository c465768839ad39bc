// An event file in the format and with the name that TensorBoard expects.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"

namespace dtrain::observe {

class EventFile {
 public:
  // For tests: called before each system call that can fail ("mkdir", "open", "write"). If it returns an errno other
  // than 0, the call fails with that errno.
  using Fault = std::function<int(const char* call)>;

  // Creates the file and its directory. Code::kData if that is not possible.
  static Result<EventFile> create(std::string path, Fault fault = nullptr);

  // Appends one record. Code::kData if the record cannot be written; the file then ends with the previous record.
  Result<> append(std::string_view event);
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  EventFile(std::string path, Fault fault) : path_(std::move(path)), fault_(std::move(fault)) {}
  [[nodiscard]] bool injected(const char* call) const;
  Result<> open();
  [[nodiscard]] bool write(std::string_view bytes) const;
  [[nodiscard]] tl::unexpected<Error> error() const;

  std::string path_;
  Fault fault_;
  UniqueFd fd_;
  int64_t size_ = 0;
};

// "events.out.tfevents.1764067200.node7.4711". TensorBoard reads the files of a directory in the order of their names.
std::string event_file_name(int64_t seconds, const std::string& host, int64_t pid);

}  // namespace dtrain::observe
