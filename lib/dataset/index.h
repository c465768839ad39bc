// dtrain data index FILE.rec: rebuilds the index of a record file by a scan (docs/formats.md, "Index files").
#pragma once

#include <string>

#include "base/log.h"

namespace dtrain::dataset {

// Writes FILE.idx with the sound records, numbered from 0, and reports broken places. Code::kNotFound; kData if there
// is no sound record.
Result<> index_records(const std::string& path, const Log& log);

}  // namespace dtrain::dataset
