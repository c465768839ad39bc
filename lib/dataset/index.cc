#include "dataset/index.h"

#include "base/file.h"
#include "data/records/record_index.h"

namespace dtrain::dataset {

Result<> index_records(const std::string& path, const Log& log) {
  DT_TRY(const data::RecordFile file, data::RecordFile::open(path, log));
  DT_TRY_VOID(data::check_is_record_file(file));
  DT_TRY(const data::RecordScan scan, data::scan_records(file));
  for (const data::RecordScan::Broken& broken : scan.broken) {
    log.warn("{}: offset {}: {}", path, broken.offset, broken.reason);
  }
  if (scan.offsets.empty())
    return fail(Code::kData, "{}: the {} bytes of the file contain no valid record", path, file.size());
  std::vector<data::IndexEntry> entries;
  for (const int64_t offset : scan.offsets) entries.push_back({entries.size(), offset});
  const std::string index = data::index_path(path);
  DT_TRY_VOID(write_file_atomic(index, data::index_text(entries)));
  log.info("indexed {} records of '{}' in '{}', skipped {} broken places", entries.size(), path, index,
           scan.broken.size());
  return {};
}

}  // namespace dtrain::dataset
