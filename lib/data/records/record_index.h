// The offsets at which the records of a file begin. An index is an `.idx` file with one line "key TAB offset" per
// record. If there is none it is created by a scan, and one process of a job can pass it to the others.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "data/records/record_file.h"

namespace dtrain::data {

// An entry of an index. Readers do not use the key.
struct IndexEntry {
  uint64_t key = 0;
  int64_t offset = 0;
};
std::string index_text(const std::vector<IndexEntry>& entries);
// Returns the offsets, ascending. `file_bytes` is the size of the record file. Code::kNotFound: there is no index;
// kData: a line is not an entry, or no record can begin at its offset.
Result<std::vector<int64_t>> read_index(const std::string& path, int64_t file_bytes);

// "train.idx" for "train.rec".
std::string index_path(const std::string& record_path);

// A record file, and the index that the user names for it. If no index is named, it is the one next to the file.
struct IndexedFile {
  std::string path;
  std::string index;
};
// True if there is no index, so that one must be created. An index that the user names is never created.
bool lacks_index(const IndexedFile& file);

// Scans the file and logs its progress every ten seconds. If nothing is broken, the offsets are written to the index
// next to the file. If that is not possible, they are kept in `directory`; with an empty `directory` they are not
// stored. If something is broken, the offsets include the broken places, so that readers count them, and are kept in a
// separate file next to the record file, or else in `directory`. The next call uses the kept offsets if the file has
// not changed, and logs again how much of the file is broken.
Result<std::vector<int64_t>> make_index(const RecordFile& file, const Log& log, const ScanProgress& progress = nullptr,
                                        const std::string& directory = {});
// The suffix of the files in which make_index keeps offsets.
inline constexpr std::string_view kKeptOffsetsSuffix = ".offsets";

// The offsets of `file`'s records: from the index at `index` or the one next to the file, or else from make_index.
Result<std::vector<int64_t>> record_offsets(const RecordFile& file, const std::string& index, const Log& log);

// Offsets that another process has found, indexed by path.
using KnownOffsets = std::map<std::string, std::vector<int64_t>>;

// Packs the offsets for another process, which may have a copy of the file: about three bytes per record. They include
// a fingerprint of the file from which they were made.
Result<std::string> pack_offsets(const RecordFile& file, const std::vector<int64_t>& offsets);
// Unpacks the offsets. Code::kData: `file` is a different file, judged by its size and the headers of its first and
// last record; or the bytes are damaged.
Result<std::vector<int64_t>> unpack_offsets(const RecordFile& file, std::string_view packed);

}  // namespace dtrain::data
