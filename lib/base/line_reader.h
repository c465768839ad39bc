// Reads a text file line by line, in memory that does not depend on the file's size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"

namespace dtrain {

class LineReader {
 public:
  // Lines that are longer than this are truncated.
  static constexpr size_t kLineBytesMax = size_t{1} << 20;

  // Code::kNotFound if the file does not exist; kData if it cannot be read.
  static Result<LineReader> open(const std::string& path);

  // The next line, without its newline; nullopt at the end of the file. It is valid until the next call.
  Result<std::optional<std::string_view>> next();
  [[nodiscard]] uint64_t number() const { return number_; }  // number of the last line, from 1
  [[nodiscard]] bool was_cut() const { return was_cut_; }    // whether the last line was longer than kLineBytesMax
  // "worker-0.log: 2 lines are longer than 1 MiB and were cut, first line 17", for the lines read so far; empty if no
  // line was.
  [[nodiscard]] std::string cut_lines_text() const;
  [[nodiscard]] bool has_newline() const { return has_newline_; }  // whether the last line ended with a newline

 private:
  LineReader(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  Result<> fill();

  std::string path_;
  UniqueFd fd_;
  std::string buffer_;
  size_t begin_ = 0;  // start of the unread part of the buffer
  bool at_end_ = false, was_cut_ = false, has_newline_ = false;
  uint64_t number_ = 0, cut_ = 0, first_cut_ = 0;
};

}  // namespace dtrain
