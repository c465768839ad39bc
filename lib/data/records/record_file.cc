#include "data/records/record_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/file_kind.h"

namespace dtrain::data {

Result<RecordFile> RecordFile::open(std::string path, const Log& log, FileCalls calls) {
  DT_TRY(std::unique_ptr<RetryingFile> file, RetryingFile::open(std::move(path), log, std::move(calls)));
  return RecordFile(std::move(file));
}

// A record that is being read: `buffer` contains the file's bytes from `offset` on.
struct RecordFile::Reading {
  const RecordFile& file;
  int64_t offset;
  std::vector<uint8_t>& buffer;
  int64_t have = 0;

  // Reads until `buffer` has at least `bytes` bytes.
  Result<> need(int64_t bytes) {
    if (bytes <= have) return {};
    if (bytes > file.size() - offset) return broken("the record runs beyond the end of the file");
    if (static_cast<int64_t>(buffer.size()) < bytes) buffer.resize(static_cast<size_t>(bytes));
    DT_TRY_VOID(file.read_at(offset + have,
                             std::span(buffer).subspan(static_cast<size_t>(have), static_cast<size_t>(bytes - have))));
    have = bytes;
    return {};
  }
  [[nodiscard]] PartHeader header(int64_t at) const {
    return parse_part_header(Bytes(buffer).subspan(static_cast<size_t>(at)));
  }
  [[nodiscard]] tl::unexpected<Error> broken(const char* reason) const {
    return fail(Code::kData, "{}: record at offset {}: {}", file.path(), offset, reason);
  }
};

Result<Bytes> RecordFile::read(int64_t offset, int64_t end, std::vector<uint8_t>& buffer) const {
  // An index may leave records out. Then `end` is far away, and only the record itself should be read.
  constexpr int64_t kReadAheadMax = 1 << 20;
  Reading reading{*this, offset, buffer};
  DT_TRY_VOID(reading.need(std::clamp(std::min(end, size()) - offset, PartHeader::kBytes, kReadAheadMax)));
  PartHeader part = reading.header(0);
  if (!part.begins_record()) return reading.broken("no record begins here");
  DT_TRY_VOID(reading.need(PartHeader::kBytes + part.length));
  int64_t begin = 0;                                  // where the part begins in the buffer
  int64_t filled = PartHeader::kBytes + part.length;  // where the payload that has been joined so far ends
  while (part.flag == 1 || part.flag == 2) {
    begin += part.padded_bytes();
    DT_TRY_VOID(reading.need(begin + PartHeader::kBytes));
    part = reading.header(begin);
    if (!part.continues_record()) return reading.broken("the next part of the record is missing");
    DT_TRY_VOID(reading.need(begin + PartHeader::kBytes + part.length));
    store_u32(buffer.data() + filled, kRecordMagic);
    std::memmove(buffer.data() + filled + 4, buffer.data() + begin + PartHeader::kBytes,
                 static_cast<size_t>(part.length));
    filled += 4 + part.length;
  }
  return Bytes(buffer).subspan(PartHeader::kBytes, static_cast<size_t>(filled - PartHeader::kBytes));
}

Result<> check_is_record_file(const RecordFile& file) {
  std::vector<uint8_t> begin(static_cast<size_t>(std::min<int64_t>(file.size(), 512)));
  DT_TRY_VOID(file.read_at(0, begin));
  const std::string_view kind = file_kind({reinterpret_cast<const char*>(begin.data()), begin.size()});
  if (kind == "a RecordIO file" || kind == "a file of another kind") return {};
  return fail(Code::kData,
              "{}: this is {}, not a RecordIO file; pack images with 'dtrain im2rec LIST ROOT OUT.rec' (from a list) "
              "or 'dtrain im2rec --recursive PREFIX DIRECTORY' (from a directory)",
              file.path(), kind);
}

namespace {

// Walks forward over a file through a window, so that small records do not cost a system call each.
class Walker {
 public:
  Walker(const RecordFile& file, const ScanProgress& progress) : file_(file), progress_(progress) {}

  Result<PartHeader> header(int64_t at) {
    if (at < begin_ || at + PartHeader::kBytes > end_) DT_TRY_VOID(fill(at));
    DT_TRY_VOID(spend(PartHeader::kBytes, at));
    return parse_part_header(Bytes(window_).subspan(static_cast<size_t>(at - begin_)));
  }
  // The first record start at or after `at`, or the file's size.
  Result<int64_t> next_start(int64_t at) {
    for (; at + PartHeader::kBytes <= file_.size(); at += 4) {
      DT_TRY(const PartHeader part, header(at));
      if (part.begins_record()) return at;
    }
    return file_.size();
  }

 private:
  static constexpr int64_t kWindowBytes = 64 << 10;

  Result<> fill(int64_t at) {
    begin_ = at;
    end_ = std::min(at + kWindowBytes, file_.size());
    window_.resize(static_cast<size_t>(end_ - begin_));
    DT_TRY_VOID(spend(end_ - begin_, at));
    if (progress_) DT_TRY_VOID(progress_(begin_));
    return file_.read_at(begin_, window_);
  }

  // Deducts examined bytes from the budget. After a broken place, the walk resumes just after the start of the broken
  // record, so a malicious file could make each start lead through the same parts again. A file that was written
  // properly and then damaged needs far less than this budget.
  Result<> spend(int64_t bytes, int64_t at) {
    budget_ -= bytes;
    if (budget_ >= 0) return {};
    return fail(
        Code::kData,
        "{}: the file is not a RecordIO file, or it is too damaged to be read: the scan stopped at offset {} of {}",
        file_.path(), at, file_.size());
  }

  const RecordFile& file_;
  const ScanProgress& progress_;
  std::vector<uint8_t> window_;
  int64_t begin_ = 0, end_ = 0;
  int64_t budget_ = 8 * file_.size() + (int64_t{64} << 20);  // bytes that may still be examined
};

struct Step {
  int64_t end = 0;               // where the next record should begin, if this one is sound
  const char* reason = nullptr;  // why the record is broken; null if it is sound
};

Result<Step> walk_record(Walker& walker, int64_t at, int64_t file_bytes) {
  bool first = true;
  while (true) {
    if (at + PartHeader::kBytes > file_bytes)
      return Step{at, first ? "the file ends within the record's header" : "the next part of the record is missing"};
    DT_TRY(const PartHeader part, walker.header(at));
    if (first && !part.begins_record()) return Step{at, "no record begins here"};
    if (!first && !part.continues_record()) return Step{at, "the next part of the record is missing"};
    at += part.padded_bytes();
    if (at > file_bytes) return Step{at, "the record runs beyond the end of the file"};
    if (part.flag == 0 || part.flag == 3) return Step{at, nullptr};
    first = false;
  }
}

}  // namespace

Result<RecordScan> scan_records(const RecordFile& file, const ScanProgress& progress) {
  RecordScan scan;
  Walker walker(file, progress);
  int64_t at = 0;
  int64_t sound = -1;  // where the sound record that ends at `at` begins; -1 if there is none
  while (at < file.size()) {
    DT_TRY(const Step step, walk_record(walker, at, file.size()));
    if (step.reason == nullptr) {
      scan.offsets.push_back(at);
      sound = std::exchange(at, step.end);
      continue;
    }
    // A writer never leaves the magic inside a record. If a record begins inside the previous one, the previous length
    // is wrong.
    int64_t inside = at;
    if (sound >= 0) {
      DT_TRY(inside, walker.next_start(sound + 4));
    }
    if (inside < at) {
      scan.offsets.pop_back();
      scan.broken.push_back({sound, "the length of the record is wrong: another record begins inside it"});
      at = inside;
    } else {
      scan.broken.push_back({at, step.reason});
      DT_TRY(at, walker.next_start(at + 4));
    }
    sound = -1;
  }
  return scan;
}

}  // namespace dtrain::data
