#include "dataset/packing/packed_records.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/crc32c.h"
#include "base/file.h"

namespace dtrain::dataset {
namespace {

constexpr std::string_view kFirstWord = "dtrain im2rec 1\t";
constexpr std::string_view kSynced = "synced", kComplete = "complete", kLeftOut = "s";

struct JournalLine {
  enum class Kind { kRecord, kLeftOut, kSynced, kComplete } kind = Kind::kRecord;
  uint64_t key = 0;
  int64_t bytes = 0;
  uint32_t checksum = 0;
  size_t end = 0;  // position in the journal after this line
};

template <class Number>
bool take_number(std::string_view& rest, Number& number, int base) {
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), number, base);
  rest.remove_prefix(static_cast<size_t>(parsed.ptr - rest.data()));
  if (parsed.ec != std::errc()) return false;
  if (!rest.empty() && rest[0] == '\t') rest.remove_prefix(1);
  return true;
}

std::optional<JournalLine> parse_line(std::string_view text) {
  using Kind = JournalLine::Kind;
  if (text == kLeftOut) return JournalLine{.kind = Kind::kLeftOut};
  if (text == kSynced) return JournalLine{.kind = Kind::kSynced};
  if (text == kComplete) return JournalLine{.kind = Kind::kComplete};
  JournalLine line;
  if (!text.starts_with("r\t")) return std::nullopt;
  text.remove_prefix(2);
  if (!take_number(text, line.key, 10) || !take_number(text, line.bytes, 10) || !take_number(text, line.checksum, 16))
    return std::nullopt;
  if (!text.empty() || line.bytes < data::PartHeader::kBytes || line.bytes > 2 * data::kPartBytesMax)
    return std::nullopt;
  return line;
}

// Parses the lines after the first one, until an incomplete line.
std::vector<JournalLine> parse_journal(std::string_view text) {
  std::vector<JournalLine> lines;
  size_t begin = text.find('\n') + 1;
  for (size_t end = 0; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1) {
    auto line = parse_line(text.substr(begin, end - begin));
    if (!line) break;
    line->end = end + 1;
    lines.push_back(*line);
  }
  return lines;
}

bool is_complete(const std::vector<JournalLine>& lines) {
  return !lines.empty() && lines.back().kind == JournalLine::Kind::kComplete;
}

int64_t bytes_of(const std::vector<JournalLine>& lines) {
  int64_t bytes = 0;
  for (const JournalLine& line : lines) bytes += line.bytes;
  return bytes;
}

int64_t file_bytes(const std::string& path) {
  std::error_code absent;
  const auto size = std::filesystem::file_size(path, absent);
  return absent ? -1 : static_cast<int64_t>(size);
}

uint32_t checksum_of(Bytes bytes) {
  return crc32c(std::as_bytes(bytes));
}

// True if the record at `offset` has the size and checksum that the journal line gives.
bool matches(int fd, int64_t offset, const JournalLine& line, std::vector<uint8_t>& buffer) {
  buffer.resize(static_cast<size_t>(line.bytes));
  size_t got = 0;
  while (got < buffer.size()) {
    const ssize_t count = ::pread(fd, buffer.data() + got, buffer.size() - got, offset + static_cast<int64_t>(got));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    got += static_cast<size_t>(count);
  }
  return checksum_of(buffer) == line.checksum;
}

}  // namespace

Result<PackedRecords> PackedRecords::open(const std::string& path, const std::string& settings, const Log& log,
                                          Fault fault) {
  PackedRecords records(path, std::move(fault));
  const std::string directory = std::filesystem::path(path).parent_path().string();
  if (!directory.empty()) DT_TRY_VOID(make_directories(directory));
  DT_TRY_VOID(records.open_files());
  DT_TRY_VOID(records.resume(settings, log), "continuing '{}'", records.records_path());
  return records;
}

Result<> PackedRecords::open_files() {
  const auto open_one = [](const std::string& path, UniqueFd& fd, int flags) -> Result<> {
    fd = UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC | flags, 0644));
    if (!fd.open()) return fail(Code::kData, "cannot write '{}': {}", path, std::strerror(errno));
    return {};
  };
  DT_TRY_VOID(open_one(journal_path(), journal_fd_, O_CREAT));
  if (::flock(journal_fd_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return fail(Code::kUsage, "another process is writing '{}'; wait until it ends, or end it", path_);
  }
  has_its_name_ = file_bytes(records_path()) < 0 && file_bytes(path_) >= 0;
  return has_its_name_ ? Result<>() : open_one(records_path(), records_fd_, O_CREAT);
}

Result<> PackedRecords::resume(const std::string& settings, const Log& log) {
  DT_TRY(const std::string journal, read_file(journal_path(), kDataBytesMax));
  const std::string first_line = std::string(kFirstWord) + settings + '\n';
  if (journal.starts_with(first_line)) {
    const bool is_finished = is_complete(parse_journal(journal));
    if (!has_its_name_ || (is_finished && file_bytes(path_) == bytes_of(parse_journal(journal))))
      return cut_at_whole_records(journal);
  } else if (!journal.empty()) {
    log.warn(
        "'{}' was started with other options, or from another list or directory, so it is packed again from the "
        "beginning. The earlier options were {}",
        records_path(), journal.substr(0, journal.find('\n')).substr(std::min(kFirstWord.size(), journal.size())));
  }
  return start_anew(settings);
}

Result<> PackedRecords::start_anew(const std::string& settings) {
  if (has_its_name_) {
    has_its_name_ = false;
    records_fd_ = UniqueFd(::open(records_path().c_str(), O_RDWR | O_CLOEXEC | O_CREAT, 0644));
    if (!records_fd_.open()) return fail(Code::kData, "cannot write '{}': {}", records_path(), std::strerror(errno));
  }
  DT_TRY_VOID(call("write", journal_path(), [&] { return ::ftruncate(journal_fd_.get(), 0); }));
  DT_TRY_VOID(call("write", records_path(), [&] { return ::ftruncate(records_fd_.get(), 0); }));
  return write(journal_fd_.get(), journal_path(), as_bytes(std::string(kFirstWord) + settings + '\n'));
}

// Keeps the journal lines up to the first one whose record is not complete, and truncates both files there.
Result<> PackedRecords::cut_at_whole_records(const std::string& journal) {
  const std::vector<JournalLine> lines = parse_journal(journal);
  size_t synced = 0;  // number of journal lines whose records are on disk
  for (size_t i = 0; i < lines.size(); i++) {
    if (lines[i].kind == JournalLine::Kind::kSynced) synced = i + 1;
  }
  const int64_t size = has_its_name_ ? bytes_of(lines) : file_bytes(records_path());
  std::vector<uint8_t> buffer;
  size_t journal_end = journal.find('\n') + 1;
  for (size_t i = 0; i < lines.size(); i++) {
    const JournalLine& line = lines[i];
    if (line.kind == JournalLine::Kind::kRecord) {
      if (bytes_ + line.bytes > size) break;
      if (!has_its_name_ && i >= synced && !matches(records_fd_.get(), bytes_, line, buffer)) break;
      entries_.push_back({line.key, bytes_});
    }
    if (line.kind == JournalLine::Kind::kLeftOut) left_out_++;
    bytes_ += line.bytes;
    // If the record file does not have its final name yet, the line "complete" is removed, because this run will write
    // it again.
    if (line.kind != JournalLine::Kind::kComplete || has_its_name_) journal_end = line.end;
  }
  DT_TRY_VOID(
      call("write", journal_path(), [&] { return ::ftruncate(journal_fd_.get(), static_cast<off_t>(journal_end)); }));
  ::lseek(journal_fd_.get(), 0, SEEK_END);
  if (has_its_name_) return {};
  DT_TRY_VOID(call("write", records_path(), [&] { return ::ftruncate(records_fd_.get(), bytes_); }));
  ::lseek(records_fd_.get(), 0, SEEK_END);
  return {};
}

Result<> PackedRecords::call(const char* name, const std::string& path, const std::function<int()>& system_call) {
  errno = fault_ ? fault_(name) : 0;
  if (errno == 0 && system_call() == 0) return {};
  if (errno == ENOSPC || errno == EDQUOT) {
    return fail(Code::kData,
                "cannot write '{}': the disk is full. {} items of the list are packed; free some space and start the "
                "same command again to continue",
                path, items());
  }
  return fail(Code::kData, "cannot write '{}': {}: {}", path, name, std::strerror(errno));
}

Result<> PackedRecords::write(int fd, const std::string& path, Bytes bytes) {
  while (!bytes.empty()) {
    ssize_t put = 0;
    DT_TRY_VOID(call("write", path, [&] {
      while ((put = ::write(fd, bytes.data(), bytes.size())) < 0 && errno == EINTR) {
      }
      return put < 0 ? -1 : 0;
    }));
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
  return {};
}

Result<> PackedRecords::append(uint64_t key, Bytes payload) {
  const size_t begin = pending_.size();
  DT_TRY_VOID(data::append_record(pending_, payload));
  const Bytes record = Bytes(pending_).subspan(begin);
  pending_lines_ += fmt::format("r\t{}\t{}\t{:08x}\n", key, record.size(), checksum_of(record));
  entries_.push_back({key, bytes_});
  bytes_ += static_cast<int64_t>(record.size());
  constexpr size_t kFlushBytes = 1 << 20;
  return pending_.size() < kFlushBytes ? Result<>() : flush();
}

Result<> PackedRecords::leave_out() {
  left_out_++;
  pending_lines_ += std::string(kLeftOut) + '\n';
  return {};
}

Result<> PackedRecords::flush() {
  DT_TRY_VOID(write(records_fd_.get(), records_path(), pending_));
  DT_TRY_VOID(write(journal_fd_.get(), journal_path(), as_bytes(pending_lines_)));
  const auto written = static_cast<int64_t>(pending_.size());
  // Starts writing to disk now, so that sync() does not have to wait long.
  ::sync_file_range(records_fd_.get(), bytes_ - written, written, SYNC_FILE_RANGE_WRITE);
  pending_.clear();
  pending_lines_.clear();
  unsynced_ += written;
  constexpr int64_t kSyncBytes = int64_t{64} << 20;
  return unsynced_ < kSyncBytes ? Result<>() : sync();
}

Result<> PackedRecords::sync() {
  if (has_its_name_) return {};
  unsynced_ = 0;  // must be set before flush(), which calls sync() again if there is still much to sync
  DT_TRY_VOID(flush());
  DT_TRY_VOID(call("sync", records_path(), [&] { return ::fdatasync(records_fd_.get()); }));
  DT_TRY_VOID(write(journal_fd_.get(), journal_path(), as_bytes(std::string(kSynced) + '\n')));
  return call("sync", journal_path(), [&] { return ::fdatasync(journal_fd_.get()); });
}

Result<> PackedRecords::commit() {
  std::error_code absent;
  if (!has_its_name_) {
    DT_TRY_VOID(sync());
    DT_TRY_VOID(write(journal_fd_.get(), journal_path(), as_bytes(std::string(kComplete) + '\n')));
    // Removes the old index first, so that the new record file never exists together with the old index. A record file
    // without an index is still usable: its records are found by a scan.
    std::filesystem::remove(data::index_path(path_), absent);
    DT_TRY_VOID(call("rename", path_, [&] { return ::rename(records_path().c_str(), path_.c_str()); }));
    has_its_name_ = true;
  }
  return write_file_atomic(data::index_path(path_), data::index_text(entries_));
}

void PackedRecords::forget(const std::string& path) {
  std::error_code absent;
  std::filesystem::remove(data::index_path(path) + ".partial", absent);
}

void PackedRecords::discard() {
  std::error_code absent;
  if (!has_its_name_) std::filesystem::remove(records_path(), absent);
  std::filesystem::remove(journal_path(), absent);
}

}  // namespace dtrain::dataset
