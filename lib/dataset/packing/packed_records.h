// A record file and its index that may be written in several runs of the program: the output of im2rec.
//
// While X.rec is written, the records are in X.rec.partial, and the journal X.idx.partial has a line for each item of
// the list: either written, with its size and checksum, or left out. A run that finds both files, with the same
// settings in the journal's first line, continues after the last complete record. A process may be killed at any point;
// after a power failure, records that did not reach the disk are recognized by their checksum.
//
//   dtrain im2rec 1 TAB settings
//   r TAB key TAB bytes TAB crc-32c          a record; `bytes` is what it takes in the file
//   s                                        an item that was left out
//   synced                                   all records before this line are on disk
//   complete                                 nothing follows; the record file may have its name already
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "data/records/record_index.h"

namespace dtrain::dataset {

class PackedRecords {
 public:
  // For tests: called before each system call that writes ("write", "sync", "rename"). If it returns an errno other
  // than 0, the call fails with that error.
  using Fault = std::function<int(const char* call)>;

  // Opens `path`.partial, which an interrupted process has left, or creates it. Two runs whose files are equal have
  // equal `settings`, one line of text. If the existing files have different settings, the log says so, and they are
  // overwritten. Code::kUsage if another process is writing them, kData if they cannot be written.
  static Result<PackedRecords> open(const std::string& path, const std::string& settings, const Log& log,
                                    Fault fault = nullptr);

  // Number of items that are done: written or left out, in this run or an earlier one.
  [[nodiscard]] int64_t items() const { return records() + left_out_; }
  [[nodiscard]] int64_t records() const { return static_cast<int64_t>(entries_.size()); }
  [[nodiscard]] int64_t left_out() const { return left_out_; }

  Result<> append(uint64_t key, Bytes payload);
  Result<> leave_out();
  // Writes everything to disk, so that a later run can continue from here.
  Result<> sync();
  // Gives the files their final names. The journal remains until forget(), so that a run that packs several lists and
  // is interrupted during a later one does not pack this one again.
  Result<> commit();

  // Removes the journal of a complete file.
  static void forget(const std::string& path);
  // Removes the files of an incomplete run.
  void discard();

 private:
  PackedRecords(std::string path, Fault fault) : path_(std::move(path)), fault_(std::move(fault)) {}
  Result<> open_files();
  Result<> resume(const std::string& settings, const Log& log);
  Result<> start_anew(const std::string& settings);
  Result<> cut_at_whole_records(const std::string& journal);
  Result<> flush();
  Result<> write(int fd, const std::string& path, Bytes bytes);
  Result<> call(const char* name, const std::string& path, const std::function<int()>& system_call);
  [[nodiscard]] std::string records_path() const { return path_ + ".partial"; }
  [[nodiscard]] std::string journal_path() const { return data::index_path(path_) + ".partial"; }

  std::string path_;
  Fault fault_;
  UniqueFd records_fd_, journal_fd_;
  std::vector<data::IndexEntry> entries_;
  int64_t left_out_ = 0;
  int64_t bytes_ = 0;             // size of all records, including the pending ones
  int64_t unsynced_ = 0;          // bytes since the last sync()
  bool has_its_name_ = false;     // an earlier run has renamed the complete record file
  std::vector<uint8_t> pending_;  // records not written yet
  std::string pending_lines_;     // their lines in the journal
};

}  // namespace dtrain::dataset
