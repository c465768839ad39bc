#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "base/words.h"
#include "data/records/image_list.h"
#include "data/records/image_record.h"
#include "data/records/label_list.h"
#include "data/records/pickle.h"
#include "data/records/record_file.h"
#include "data/records/record_index.h"
#include "data/records/sharding_file.h"
#include "fuzz/memory_file.h"
#include "fuzz/refusal.h"
#include "fuzz/targets.h"

namespace dtrain::fuzz {

using namespace dtrain::data;

namespace {

std::string_view as_text(const std::vector<uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Whether the offsets ascend, each at a multiple of 4 where the header of a part has room.
bool may_be_offsets(const std::vector<int64_t>& offsets, int64_t file_bytes) {
  return std::ranges::adjacent_find(offsets, std::ranges::greater_equal()) == offsets.end() &&
         std::ranges::all_of(offsets, [&](int64_t offset) {
           return offset >= 0 && offset % 4 == 0 && offset <= file_bytes - PartHeader::kBytes;
         });
}

void check_image_record(Bytes payload) {
  const Result<ImageRecord> record = parse_image_record(payload);
  if (!record) {
    refused(record.error());
    return;
  }
  DT_CHECK(ImageRecord::kHeaderBytes + record->labels.size() + record->image.size() == payload.size(),
           "the parts of an image record have {} and {} of {} bytes", record->labels.size(), record->image.size(),
           payload.size());
  std::vector<float> labels;
  for (size_t i = 0; i < std::max<size_t>(record->flag, 1); i++) labels.push_back(record->label_at(i));
  std::vector<uint8_t> written;
  append_image_record(written, record->id, labels, record->image);
  const Result<ImageRecord> again = parse_image_record(written);
  DT_CHECK(again && again->id == record->id && std::ranges::equal(again->image, record->image),
           "the written image record is read as another");
}

// A sound record is read as `payload` again when it is written.
void check_written_record(Bytes payload) {
  std::vector<uint8_t> written, buffer;
  const Result<> appended = append_record(written, payload);
  DT_CHECK(appended, "a payload of {} bytes cannot be written: {}", payload.size(), appended.error().text());
  const MemoryFile memory(as_text(written));
  const Result<RecordFile> file = RecordFile::open(memory.path());
  DT_CHECK(file, "the written record cannot be opened: {}", file.error().text());
  const Result<Bytes> again = file->read(0, file->size(), buffer);
  DT_CHECK(again && std::ranges::equal(*again, payload), "the written record is read as another");
  const Result<RecordScan> scan = scan_records(*file);
  DT_CHECK(scan && scan->offsets.size() == 1 && scan->broken.empty(), "the written record is not found");
}

void check_sound_records(const RecordFile& file, const RecordScan& scan) {
  constexpr size_t kWrittenMax = 4;  // because each one makes a file
  std::vector<uint8_t> buffer, other;
  for (size_t i = 0; i < scan.offsets.size(); i++) {
    const int64_t end = i + 1 < scan.offsets.size() ? scan.offsets[i + 1] : file.size();
    const Result<Bytes> payload = file.read(scan.offsets[i], end, buffer);
    DT_CHECK(payload, "a sound record is not read: {}", payload.error().text());
    const Result<Bytes> again = file.read(scan.offsets[i], 0, other);
    DT_CHECK(again && std::ranges::equal(*again, *payload), "a record is read as another if its end is not known");
    check_image_record(*payload);
    if (i < kWrittenMax) check_written_record(*payload);
  }
}

void check_packed_offsets(const RecordFile& file, const std::vector<int64_t>& offsets) {
  const Result<std::string> packed = pack_offsets(file, offsets);
  DT_CHECK(packed, "the offsets cannot be packed: {}", packed.error().text());
  const Result<std::vector<int64_t>> unpacked = unpack_offsets(file, *packed);
  DT_CHECK(unpacked && *unpacked == offsets, "the packed offsets are unpacked as others");
}

void check_pickle_value(const Pickle& pickle, const Pickle::Value& value, std::string_view file) {
  const bool is_inside = value.bytes.data() >= file.data() && value.bytes.end() <= file.end();
  DT_CHECK(value.bytes.empty() || is_inside, "bytes of a pickle lie outside of it");
  const bool is_dictionary = value.kind == Pickle::Value::Kind::kDictionary;
  DT_CHECK(!is_dictionary || value.items.size() % 2 == 0, "a key has no value");
  for (size_t i = 0; is_dictionary && i < value.items.size(); i += 2) {
    const Pickle::Value& key = pickle[value.items[i]];
    const bool is_text = key.kind == Pickle::Value::Kind::kBytes;
    DT_CHECK(!is_text || pickle.find(value, key.bytes) != nullptr, "a key is not found");
  }
  const Result<PickledBytes> array = byte_array(pickle, value);
  if (!array) {
    refused(array.error());
    return;
  }
  DT_CHECK(array->rows > 0 && array->columns > 0 && array->rows * array->columns == std::ssize(array->bytes),
           "an array of {} x {} has {} bytes", array->rows, array->columns, array->bytes.size());
}

}  // namespace

bool read_records_bytes(std::string_view bytes) {
  const MemoryFile memory(bytes);
  const Result<RecordFile> file = RecordFile::open(memory.path());
  DT_CHECK(file, "the file cannot be opened: {}", file.error().text());
  if (const Result<> kind = check_is_record_file(*file); !kind) refused(kind.error());
  const Result<RecordScan> scan = scan_records(*file);
  if (!scan) return refused(scan.error());
  DT_CHECK(may_be_offsets(scan->offsets, file->size()), "the offsets of sound records are wrong");
  check_sound_records(*file, *scan);
  std::vector<uint8_t> buffer;
  constexpr size_t kBrokenMax = 32;  // because all of them may lead through the same parts
  for (const RecordScan::Broken& broken : std::span(scan->broken).first(std::min(scan->broken.size(), kBrokenMax))) {
    DT_CHECK(!broken.reason.empty(), "a broken record has no reason");
    if (const Result<Bytes> payload = file->read(broken.offset, file->size(), buffer); !payload) {
      refused(payload.error());
    }
  }
  if (!scan->offsets.empty()) check_packed_offsets(*file, scan->offsets);
  return !scan->offsets.empty() && scan->broken.empty();
}

bool read_index_bytes(std::string_view bytes) {
  // A file with room for three records: the index and the packed offsets are compared with its size and headers.
  const std::string records = indexed_records();
  const MemoryFile memory(records), index(bytes);
  const Result<RecordFile> file = RecordFile::open(memory.path());
  DT_CHECK(file, "the record file cannot be opened: {}", file.error().text());
  const Result<std::vector<int64_t>> unpacked = unpack_offsets(*file, bytes);
  if (unpacked) {
    DT_CHECK(may_be_offsets(*unpacked, file->size()), "the unpacked offsets are wrong");
    check_packed_offsets(*file, *unpacked);
  } else {
    refused(unpacked.error());
  }
  const Result<std::vector<int64_t>> offsets = read_index(index.path(), file->size());
  if (!offsets) return unpacked ? true : refused(offsets.error());
  DT_CHECK(may_be_offsets(*offsets, file->size()), "the offsets of the index are wrong");
  std::vector<IndexEntry> entries;
  for (const int64_t offset : *offsets) entries.push_back({entries.size(), offset});
  const MemoryFile written(index_text(entries));
  const Result<std::vector<int64_t>> again = read_index(written.path(), file->size());
  DT_CHECK(again && *again == *offsets, "the written index is read as another");
  return true;
}

namespace {

// What im2rec writes, --path-imglist reads.
void check_label_list(const std::vector<ListEntry>& entries, std::string_view text) {
  const size_t width = entries.front().labels.size();
  std::set<uint64_t> ids;
  for (const ListEntry& entry : entries) {
    if (entry.labels.size() != width || !ids.insert(entry.id).second) return;
  }
  const auto list = LabelList::parse(text, "list", width);
  DT_CHECK(list, "the labels of the written list are refused: {}", list.error().text());
  for (const ListEntry& entry : entries) {
    DT_CHECK(std::ranges::equal((*list)->find(entry.id), entry.labels), "id {} has other labels", entry.id);
  }
}

}  // namespace

bool read_list_bytes(std::string_view bytes) {
  for (const size_t width : {1, 2}) {
    if (const auto labels = LabelList::parse(bytes, "list", width); !labels) {
      refused(labels.error());
    } else {
      DT_CHECK((*labels)->size() >= 1 && (*labels)->label_width() == width, "the list of labels is empty");
      DT_CHECK((*labels)->classes().value_or(1) >= 1, "the labels have no classes");
    }
    if (const auto entries = parse_list_of_width(bytes, "list", static_cast<int>(width), Log::silent()); !entries) {
      refused(entries.error());
    }
  }
  const std::vector<ListEntry> entries = parse_list(bytes, "list", Log::silent());
  if (entries.empty()) return false;
  // Labels are written with six digits after the point, so the second writing is compared with the first one.
  const std::string written = list_text(entries);
  const std::vector<ListEntry> again = parse_list(written, "list", Log::silent());
  const auto same = [](const ListEntry& a, const ListEntry& b) {
    return a.id == b.id && a.path == b.path && a.labels.size() == b.labels.size();
  };
  DT_CHECK(std::ranges::equal(again, entries, same), "the written list is read as another");
  DT_CHECK(list_text(again) == written, "the written labels are read as others");
  check_label_list(again, written);
  return true;
}

namespace {

// The shares in the order in which they lie in the data.
std::vector<Share> by_place(std::vector<Share> shares) {
  std::ranges::sort(shares, {}, [](const Share& share) { return std::pair(share.begin, share.end); });
  return shares;
}

void check_shares(const std::vector<Share>& shares, int64_t records) {
  int64_t at = 0;
  for (const Share& share : by_place(shares)) {
    DT_CHECK(at <= share.begin && share.begin <= share.end && share.end <= records,
             "the share from {} to {} of {} records begins before {}", share.begin, share.end, records, at);
    at = share.end;
  }
}

void check_written_shares(const std::vector<Share>& shares, int64_t records, const ShardingOptions& options) {
  const std::vector<Share> placed = by_place(shares);
  DT_CHECK(placed.front().begin == 0 && placed.back().end == records, "the shares do not cover {} records", records);
  for (size_t i = 1; i < placed.size(); i++) {
    DT_CHECK(placed[i].begin == placed[i - 1].end, "there is a gap before share {}", i);
  }
  const Result<std::vector<Fraction>> again = parse_sharding_file(format_sharding_file(shares, records), options);
  DT_CHECK(again, "the written shares are refused: {}", again.error().text());
  DT_CHECK(shares_of(*again, records) == shares, "the written shares are read as others");
}

}  // namespace

bool read_pickle_bytes(std::string_view bytes) {
  const Result<Pickle> pickle = Pickle::parse(bytes);
  if (!pickle) return refused(pickle.error());
  // Every value that can be reached, each once: a list may hold itself.
  std::vector<const Pickle::Value*> open{&pickle->root()};
  std::set<const Pickle::Value*> seen{open.front()};
  while (!open.empty()) {
    const Pickle::Value& value = *open.back();
    open.pop_back();
    check_pickle_value(*pickle, value, bytes);
    for (const Pickle::Id id : value.items) {
      if (seen.insert(&(*pickle)[id]).second) open.push_back(&(*pickle)[id]);
    }
  }
  return true;
}

bool read_sharding_bytes(std::string_view bytes) {
  constexpr std::array<int64_t, 5> kRecords = {1, 7, 50'000, 1'281'167, 1'000'000'000'003};
  const std::string plain = without_comments(bytes);
  const auto workers = static_cast<int64_t>(std::max<size_t>(word_lines(plain).size(), 1));
  bool valid = false;
  for (const bool allow_gaps : {false, true}) {
    const ShardingOptions options{.name = "data_sharding", .workers = workers, .allow_gaps = allow_gaps};
    const Result<std::vector<Fraction>> fractions = parse_sharding_file(bytes, options);
    if (!fractions) {
      refused(fractions.error());
      continue;
    }
    valid = true;
    for (const int64_t records : kRecords) {
      const std::vector<Share> shares = shares_of(*fractions, records);
      check_shares(shares, records);
      if (!allow_gaps) check_written_shares(shares, records, options);
    }
  }
  return valid;
}

}  // namespace dtrain::fuzz
