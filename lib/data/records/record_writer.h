// Writes a record file and its index.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "data/records/record_index.h"

namespace dtrain::data {

class RecordWriter {
 public:
  // The record file and its index appear at commit(). Until then, earlier files of these names remain.
  static Result<RecordWriter> create(std::string path);

  Result<> append(uint64_t key, Bytes payload);
  Result<> commit();
  [[nodiscard]] int64_t records() const { return static_cast<int64_t>(entries_.size()); }

 private:
  RecordWriter(std::string path, AtomicFile file) : path_(std::move(path)), file_(std::move(file)) {}
  Result<> flush();

  std::string path_;
  AtomicFile file_;
  std::vector<IndexEntry> entries_;
  std::vector<uint8_t> pending_;  // bytes not written yet
  int64_t written_ = 0;
};

}  // namespace dtrain::data
