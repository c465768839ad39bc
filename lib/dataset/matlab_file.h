// Reads the table of synsets in ILSVRC12's devkit, which is a MATLAB file (MAT-file, level 5).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/error.h"
#include "data/records/recordio.h"

namespace dtrain::dataset {

// Returns the names of the synsets that have images, indexed by ILSVRC2012_ID: {1: "n02119789", ...}. The file must
// contain one struct array, `synsets`, with the fields ILSVRC2012_ID and WNID. `name`: the file's name, for messages.
// Code::kData if the file is malformed.
// Source: MathWorks, MAT-File Format, version 5.
Result<std::map<int64_t, std::string>> read_synsets(Bytes file, const std::string& name);

}  // namespace dtrain::dataset
