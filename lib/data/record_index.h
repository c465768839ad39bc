// Where the records of a file begin: `.idx` files (a line "key TAB offset" a record), made by a scan where there is
// none, and handed from one process of a job to the others.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "data/record_file.h"

namespace dtrain::data {

// The keys are of no use to a reader.
struct IndexEntry {
  uint64_t key = 0;
  int64_t offset = 0;
};
std::string index_text(const std::vector<IndexEntry>& entries);
// The offsets, ascending. Code::kNotFound; kData if a line is not an entry or no record can begin where it says.
Result<std::vector<int64_t>> read_index(const std::string& path, int64_t file_bytes);

// "train.idx" for "train.rec"
std::string index_path(const std::string& record_path);

// A record file and the index that the user names for it; empty: the one beside it.
struct IndexedFile {
  std::string path;
  std::string index;
};
// Whether there is no index and it has to be made. An index that the user names is never made.
bool lacks_index(const IndexedFile& file);

// Scans the file and logs, now and then, how far it is. The offsets are written to the index beside the file if that
// can be done and nothing was broken. Broken places are among the offsets, so that whoever reads them counts them.
Result<std::vector<int64_t>> make_index(const RecordFile& file, const Log& log, const ScanProgress& progress = nullptr);

// The offsets of `file`'s records: from the index at `index` or beside the file; where there is none, make_index.
Result<std::vector<int64_t>> record_offsets(const RecordFile& file, const std::string& index, const Log& log);

// By path: offsets that another process has found.
using KnownOffsets = std::map<std::string, std::vector<int64_t>>;

// The offsets as bytes for another process, which may have a copy of the file: about three bytes a record. They say by
// which file they were made.
Result<std::string> pack_offsets(const RecordFile& file, const std::vector<int64_t>& offsets);
// Back. Code::kData: `file` is not the same one, by its size and by the headers of the first and the last record; or
// the bytes are damaged.
Result<std::vector<int64_t>> unpack_offsets(const RecordFile& file, std::string_view packed);

}  // namespace dtrain::data
