// A record file and its index, written in one or several runs of the program: the output of im2rec.
//
// While X.rec is being written, the records are in X.rec.partial. The journal X.idx.partial has one line for each item
// of the list, which says either that the item was written, with size and checksum, or that it was left out. A run that
// finds both files, with its own settings in the journal's first line, continues after the last complete record. The
// process may be killed at any point. After a power failure, the checksums show which records did not reach the disk.
//
//   dtrain im2rec 1 TAB settings
//   r TAB key TAB bytes TAB crc-32c          a record, which occupies `bytes` bytes of the file
//   s                                        an item that was left out
//   synced                                   all records before this line are on disk
//   complete                                 all items are done; the record file may already have its final name
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
  // For tests: called before each system call that writes ("write", "sync", "rename"). If it returns a nonzero errno,
  // the call fails with that error.
  using Fault = std::function<int(const char* call)>;

  // Opens `path`.partial if an interrupted process has left it, and creates it otherwise. `settings` is one line of
  // text; it must be equal for two runs exactly if they would write the same files. If the existing files have
  // different settings, a message is logged and they are overwritten. Code::kUsage if another process is writing them,
  // kData if they cannot be written.
  static Result<PackedRecords> open(const std::string& path, const std::string& settings, const Log& log,
                                    Fault fault = nullptr);

  // Number of items that are done: written or left out, in this run or an earlier one.
  [[nodiscard]] int64_t items() const { return records() + left_out_; }
  [[nodiscard]] int64_t records() const { return static_cast<int64_t>(entries_.size()); }
  [[nodiscard]] int64_t left_out() const { return left_out_; }

  Result<> append(uint64_t key, Bytes payload);
  Result<> leave_out();
  // Writes everything to disk, so that a later run can continue after the items that are done.
  Result<> sync();
  // Gives the files their final names. The journal remains until forget(): if a run packs several lists and is
  // interrupted in a later list, the journal tells the next run that this list is complete.
  Result<> commit();

  // Removes the journal of a completed file.
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
  int64_t bytes_ = 0;             // size of all records, including those in pending_
  int64_t unsynced_ = 0;          // bytes written since the last sync()
  bool has_its_name_ = false;     // whether an earlier run has given the complete record file its final name
  std::vector<uint8_t> pending_;  // records not written yet
  std::string pending_lines_;     // the journal lines of the records in pending_
};

}  // namespace dtrain::dataset
