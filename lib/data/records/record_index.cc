#include "data/records/record_index.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/progress_bar.h"

namespace dtrain::data {

std::string index_text(const std::vector<IndexEntry>& entries) {
  std::string text;
  for (const IndexEntry& entry : entries) fmt::format_to(std::back_inserter(text), "{}\t{}\n", entry.key, entry.offset);
  return text;
}

namespace {

constexpr std::string_view kIndexBlanks = " \t\r";

// The second of two fields separated by blanks.
std::string_view second_field(std::string_view line) {
  const size_t key_end = line.find_first_of(kIndexBlanks, line.find_first_not_of(kIndexBlanks));
  if (key_end == std::string_view::npos) return {};
  const size_t begin = line.find_first_not_of(kIndexBlanks, key_end);
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(kIndexBlanks) + 1 - begin);
}

}  // namespace

Result<std::vector<int64_t>> read_index(const std::string& path, int64_t file_bytes) {
  DT_TRY(const std::string text, read_file(path, kDataBytesMax));
  constexpr std::string_view kRemedy = "rebuild the index with 'dtrain data index', or remove it";
  std::vector<std::pair<int64_t, int64_t>> found;  // the offset and the line number of each entry
  int64_t line_number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t line_end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, line_end);
    rest.remove_prefix(std::min(line_end + 1, rest.size()));
    line_number++;
    if (line.find_first_not_of(kIndexBlanks) == std::string_view::npos) continue;
    const std::string_view field = second_field(line);
    int64_t offset = 0;
    const auto parsed = std::from_chars(field.data(), field.data() + field.size(), offset);
    if (field.empty() || parsed.ec != std::errc() || parsed.ptr != field.data() + field.size()) {
      return fail(Code::kData, "{}: line {} does not have the form 'key TAB offset'; {}", path, line_number, kRemedy);
    }
    if (offset < 0 || offset % 4 != 0 || offset > file_bytes - PartHeader::kBytes) {
      return fail(Code::kData,
                  "{}: line {}: no record can begin at offset {}, because the record file has {} bytes; {}", path,
                  line_number, offset, file_bytes, kRemedy);
    }
    found.emplace_back(offset, line_number);
  }
  std::ranges::sort(found);
  const auto same_offset = [](const auto& a, const auto& b) { return a.first == b.first; };
  const auto twice = std::ranges::adjacent_find(found, same_offset);
  if (twice != found.end()) {
    return fail(Code::kData, "{}: lines {} and {} both have the offset {}; {}", path, twice->second,
                std::next(twice)->second, twice->first, kRemedy);
  }
  std::vector<int64_t> offsets;
  offsets.reserve(found.size());
  for (const auto& [offset, line] : found) offsets.push_back(offset);
  return offsets;
}

std::string index_path(const std::string& record_path) {
  const std::string_view suffix = ".rec";
  return (record_path.ends_with(suffix) ? record_path.substr(0, record_path.size() - suffix.size()) : record_path) +
         ".idx";
}

namespace {

// The path in `directory` of the file that stores the record offsets of `file`. The name depends on the full path of
// the record file, so files of the same name from different directories do not collide.
std::string kept_path(const RecordFile& file, const std::string& directory) {
  std::error_code ignored;
  const std::string path = std::filesystem::absolute(file.path(), ignored).string();
  return fmt::format("{}/{}-{:08x}{}", directory, std::filesystem::path(path).stem().string(),
                     crc32c(std::as_bytes(std::span(path))), kKeptOffsetsSuffix);
}

// The path next to the record file at which the offsets are kept if the record file has broken places.
std::string kept_path(const RecordFile& file) {
  const std::string index = index_path(file.path());
  return index.substr(0, index.size() - std::string_view(".idx").size()) + std::string(kKeptOffsetsSuffix);
}

// ---- Kept offsets. The file has the packed offsets. If the record file has broken places, a line "broken TIME N
// records, ..." precedes them. TIME is the record file's modification time, because its size alone would not show that
// an intact copy has replaced it.
constexpr std::string_view kBroken = "broken ";

std::string change_time(const RecordFile& file) {
  std::error_code unknown;
  const auto time = std::filesystem::last_write_time(file.path(), unknown);
  return unknown ? "" : fmt::format("{} ", time.time_since_epoch().count());
}

std::string broken_line(const RecordFile& file, const RecordScan& scan) {
  return fmt::format("{}{}{} records, {} broken places, the first at offset {}: {}\n", kBroken, change_time(file),
                     scan.offsets.size(), scan.broken.size(), scan.broken.front().offset, scan.broken.front().reason);
}

// Takes the first line of kept offsets, if there is one, and logs it. False if the file has been changed since.
bool take_broken_line(const RecordFile& file, std::string_view& kept, const Log& log) {
  if (!kept.starts_with(kBroken)) return true;
  const std::string begin = std::string(kBroken) + change_time(file);
  const size_t end = kept.find('\n');
  if (end == std::string_view::npos || !kept.starts_with(begin) || begin == kBroken) return false;
  log.warn("{}: {}", file.path(), kept.substr(begin.size(), end - begin.size()));
  kept.remove_prefix(end + 1);
  return true;
}

// The offsets that were kept in the file `path`; nullopt if it has none for this record file.
std::optional<std::vector<int64_t>> kept_offsets(const RecordFile& file, const std::string& path, const Log& log) {
  const Result<std::string> content = read_file(path, kDataBytesMax);
  if (!content) return std::nullopt;
  std::string_view kept = *content;
  if (!take_broken_line(file, kept, log)) return std::nullopt;
  Result<std::vector<int64_t>> offsets = unpack_offsets(file, kept);
  if (!offsets) return std::nullopt;
  log.info("{}: took the offsets of {} records from '{}'", file.path(), offsets->size(), path);
  return std::move(*offsets);
}

Result<> keep_offsets(const RecordFile& file, std::string_view first_line, const std::vector<int64_t>& offsets,
                      const std::string& path) {
  DT_TRY(const std::string packed, pack_offsets(file, offsets));
  return write_file_atomic(path, std::string(first_line) + packed);
}

void write_index(const RecordFile& file, const std::vector<int64_t>& offsets, const Log& log,
                 const std::string& directory) {
  std::vector<IndexEntry> entries;
  entries.reserve(offsets.size());
  for (const int64_t offset : offsets) entries.push_back({entries.size(), offset});
  const std::string path = index_path(file.path());
  const Result<> written = write_file_atomic(path, index_text(entries));
  if (written) {
    log.info("{}: indexed {} records into '{}'", file.path(), entries.size(), path);
    std::error_code ignored;
    std::filesystem::remove(kept_path(file), ignored);  // left over from when the file was broken
    return;
  }
  const std::string kept = directory.empty() ? "" : kept_path(file, directory);
  const bool is_kept = !kept.empty() && keep_offsets(file, "", offsets, kept);
  log.info("{}: indexed {} records {}, because the index cannot be written next to the file: {}", file.path(),
           entries.size(), is_kept ? fmt::format("into '{}'", kept) : "in memory only", written.error().message);
}

// Keeps the offsets of a file with broken places. They are not written as an index: if the index listed the broken
// places, other readers could not use it; if it did not, the next run would not count them. `offsets` includes sound
// and broken places.
void keep_broken(const RecordFile& file, const std::string& line, const std::vector<int64_t>& offsets, const Log& log,
                 const std::string& directory) {
  std::vector<std::string> paths = {kept_path(file)};
  if (!directory.empty()) paths.push_back(kept_path(file, directory));
  for (const std::string& path : paths) {
    if (!keep_offsets(file, line, offsets, path)) continue;
    log.info("{}: stored the offsets in '{}' for the next start", file.path(), path);
    return;
  }
}

double megabytes(int64_t bytes) {
  return static_cast<double>(bytes) / 1e6;
}

}  // namespace

bool lacks_index(const IndexedFile& file) {
  std::error_code ignored;
  return file.index.empty() && !std::filesystem::exists(index_path(file.path), ignored);
}

Result<std::vector<int64_t>> make_index(const RecordFile& file, const Log& log, const ScanProgress& progress,
                                        const std::string& directory) {
  std::vector<std::string> places = {kept_path(file)};
  if (!directory.empty()) places.push_back(kept_path(file, directory));
  for (const std::string& path : places) {
    if (std::optional<std::vector<int64_t>> kept = kept_offsets(file, path, log)) return std::move(*kept);
  }
  log.info("{}: the index '{}' does not exist; indexing {:.1f} MB", file.path(), index_path(file.path()),
           megabytes(file.size()));
  ProgressBar bar({fmt::format("indexing {}", file.path()), "", file.size()}, log);
  const auto report = [&](int64_t offset) -> Result<> {
    bar.show(offset);
    return progress ? progress(offset) : Result<>();
  };
  DT_TRY(RecordScan scan, scan_records(file, report), "indexing '{}'", file.path());
  if (scan.broken.empty()) {
    write_index(file, scan.offsets, log, directory);
    return std::move(scan.offsets);
  }
  const std::string line = broken_line(file, scan);
  log.warn("{}: {} records, {} broken places, the first at offset {}: {}", file.path(), scan.offsets.size(),
           scan.broken.size(), scan.broken.front().offset, scan.broken.front().reason);
  for (const RecordScan::Broken& broken : scan.broken) scan.offsets.push_back(broken.offset);
  std::sort(scan.offsets.begin(), scan.offsets.end());
  keep_broken(file, line, scan.offsets, log, directory);
  return std::move(scan.offsets);
}

namespace {

Result<bool> record_begins_at(const RecordFile& file, int64_t offset) {
  std::array<uint8_t, PartHeader::kBytes> header{};
  DT_TRY_VOID(file.read_at(offset, header));
  return parse_part_header(header).begins_record();
}

// Refuses an index that belongs to another file or to an earlier version of this file. Checks a sample of the places
// that it lists: a few of them may be broken records, but not half of them.
Result<> check_places(const RecordFile& file, const std::string& index, const std::vector<int64_t>& offsets) {
  constexpr int64_t kPlacesMax = 16;
  const int64_t places = std::min(std::ssize(offsets), kPlacesMax);
  std::vector<int64_t> wrong;
  for (int64_t i = 0; i < places; i++) {
    const int64_t offset = offsets[static_cast<size_t>(std::ssize(offsets) * i / places)];
    DT_TRY(const bool begins, record_begins_at(file, offset));
    if (!begins) wrong.push_back(offset);
  }
  if (2 * std::ssize(wrong) < places || wrong.empty()) return {};
  return fail(Code::kData,
              "{}: this is not the index of {}: at {} of {} offsets that were checked, no record begins, first at "
              "offset {}; rebuild the index with 'dtrain data index {}', or remove it",
              index, file.path(), wrong.size(), places, wrong.front(), file.path());
}

// Where the record at `offset` ends, or the file's size if it is broken.
Result<int64_t> end_of_record(const RecordFile& file, int64_t offset) {
  std::array<uint8_t, PartHeader::kBytes> bytes{};
  bool is_last = false;
  while (!is_last && offset + PartHeader::kBytes <= file.size()) {
    DT_TRY_VOID(file.read_at(offset, bytes));
    const PartHeader part = parse_part_header(bytes);
    if (!part.begins_record() && !part.continues_record()) return file.size();
    offset += part.padded_bytes();
    is_last = part.flag == 0 || part.flag == 3;
  }
  return is_last ? std::min(offset, file.size()) : file.size();
}

// Warns of records that the index does not list. An index may leave records out on purpose, as 'dtrain data index'
// leaves out broken ones, but it may also have been truncated.
Result<> warn_of_unlisted(const RecordFile& file, const std::string& index, const std::vector<int64_t>& offsets,
                          const Log& log) {
  DT_TRY(const int64_t end, end_of_record(file, offsets.back()));
  const int64_t before = offsets.front(), behind = file.size() - end;
  if (before + behind == 0) return {};
  log.warn(
      "{}: the index does not list the first {} and the last {} bytes of {}, so they will not be read; if they contain "
      "records, rebuild the index with 'dtrain data index {}'",
      index, before, behind, file.path(), file.path());
  return {};
}

// Checks an index. A disk fault is ignored here: the reader of the record reports it later, with the record's number.
Result<> check_index(const RecordFile& file, const std::string& index, const std::vector<int64_t>& offsets,
                     const Log& log) {
  Result<> checked = check_places(file, index, offsets);
  if (checked) checked = warn_of_unlisted(file, index, offsets, log);
  return checked || checked.error().code != Code::kDevice ? checked : Result<>();
}

}  // namespace

Result<std::vector<int64_t>> record_offsets(const RecordFile& file, const std::string& index, const Log& log) {
  const std::string path = index.empty() ? index_path(file.path()) : index;
  auto known = read_index(path, file.size());
  if (!known && index.empty() && known.error().code == Code::kNotFound) return make_index(file, log);
  if (!known) return known;
  if (known->empty()) {
    return fail(Code::kData, "{}: the index lists no records; rebuild it with 'dtrain data index {}', or remove it",
                path, file.path());
  }
  DT_TRY_VOID(check_index(file, path, *known, log));
  return known;
}

// ---- Packed offsets: the file's size and the headers of its first and last record (8 bytes each), then the distances
// between offsets, in units of 4 bytes, as base-128 numbers: 7 bits per byte, the lowest bits first, with the highest
// bit set in all bytes but the last.
namespace {

constexpr size_t kFileMarkBytes = 24;

Result<std::string> file_mark(const RecordFile& file, int64_t first, int64_t last) {
  std::array<uint8_t, kFileMarkBytes> mark{};
  store_u64(mark.data(), static_cast<uint64_t>(file.size()));
  DT_TRY_VOID(file.read_at(first, std::span(mark).subspan(8, 8)));
  DT_TRY_VOID(file.read_at(last, std::span(mark).subspan(16, 8)));
  return std::string(mark.begin(), mark.end());
}

void append_varint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

// Removes a number of at most nine bytes from the front of `bytes` and returns it; nullopt if there is none.
std::optional<uint64_t> take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < std::min<size_t>(bytes.size(), 9); i++) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    value |= static_cast<uint64_t>(byte & 0x7F) << (7 * i);
    if (byte >= 0x80) continue;
    bytes.remove_prefix(i + 1);
    return value;
  }
  return std::nullopt;
}

uint64_t size_in_mark(std::string_view mark) {
  return load_u64(reinterpret_cast<const uint8_t*>(mark.data()));
}

}  // namespace

Result<std::string> pack_offsets(const RecordFile& file, const std::vector<int64_t>& offsets) {
  if (offsets.empty()) return fail(Code::kData, "{}: the file contains no records", file.path());
  DT_TRY(std::string packed, file_mark(file, offsets.front(), offsets.back()));
  int64_t last = 0;
  for (const int64_t offset : offsets)
    append_varint(static_cast<uint64_t>(offset - std::exchange(last, offset)) / 4, packed);
  return packed;
}

Result<std::vector<int64_t>> unpack_offsets(const RecordFile& file, std::string_view packed) {
  const auto damaged = [&] {
    return fail(Code::kData, "{}: the index received from the scheduler is damaged", file.path());
  };
  if (packed.size() <= kFileMarkBytes) return damaged();
  const std::string_view mark = packed.substr(0, kFileMarkBytes);
  if (size_in_mark(mark) != static_cast<uint64_t>(file.size())) {
    return fail(Code::kData,
                "{}: the file has {} bytes on this host, but {} bytes on the host that indexed it; copy the same file "
                "to all hosts",
                file.path(), file.size(), size_in_mark(mark));
  }
  packed.remove_prefix(kFileMarkBytes);
  std::vector<int64_t> offsets;
  int64_t last = 0;
  while (!packed.empty()) {
    const std::optional<uint64_t> words = take_varint(packed);
    const auto room = static_cast<uint64_t>(std::max<int64_t>(0, file.size() - PartHeader::kBytes - last) / 4);
    if (!words || *words > room || (*words == 0 && !offsets.empty())) return damaged();
    last += static_cast<int64_t>(4 * *words);
    offsets.push_back(last);
  }
  DT_TRY(const std::string own, file_mark(file, offsets.front(), offsets.back()));
  if (own == mark) return offsets;
  return fail(
      Code::kData,
      "{}: the file differs from the file that was indexed, at offset {} or {}; copy the same file to all hosts",
      file.path(), offsets.front(), offsets.back());
}

}  // namespace dtrain::data
