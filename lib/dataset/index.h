// dtrain data index FILE.rec: rebuilds the index of a record file by a scan (docs/formats.md, "Index files").
#pragma once

#include <string>

#include "base/log.h"

namespace dtrain::dataset {

// Writes FILE.idx, which numbers the sound records from 0, and logs where the file is damaged. Code::kNotFound: there
// is no file; kData: there is no sound record.
Result<> index_records(const std::string& path, const Log& log);

}  // namespace dtrain::dataset
