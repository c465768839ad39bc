#include "data/records/record_writer.h"

#include <filesystem>
#include <utility>

namespace dtrain::data {

Result<RecordWriter> RecordWriter::create(std::string path) {
  DT_TRY(AtomicFile file, AtomicFile::create(path));
  return RecordWriter(std::move(path), std::move(file));
}

Result<> RecordWriter::append(uint64_t key, Bytes payload) {
  const int64_t offset = written_ + static_cast<int64_t>(pending_.size());
  DT_TRY_VOID(append_record(pending_, payload));
  entries_.push_back({key, offset});
  constexpr size_t kFlushBytes = 1 << 20;
  return pending_.size() < kFlushBytes ? Result<>() : flush();
}

Result<> RecordWriter::flush() {
  DT_TRY_VOID(file_.write(std::as_bytes(std::span(pending_))));
  written_ += static_cast<int64_t>(pending_.size());
  pending_.clear();
  return {};
}

Result<> RecordWriter::commit() {
  DT_TRY_VOID(flush());
  // Removes the old index first, so that it is never seen together with the new record file. If there is no index, a
  // scan creates one.
  std::error_code absent;
  std::filesystem::remove(index_path(path_), absent);
  DT_TRY_VOID(file_.commit());
  return write_file_atomic(index_path(path_), index_text(entries_));
}

}  // namespace dtrain::data
