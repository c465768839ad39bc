// The file format safetensors: a header in JSON, then the numbers of all arrays.
// Source: https://github.com/huggingface/safetensors, "Format".
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "infer/stored_model.h"
#include "tensor/parameters.h"

namespace dtrain::infer {

// What precedes the floats: 8 bytes with the length of the header, and the header. The arrays, of float32, follow in
// their order without gaps, row-major and little-endian. Its length is a multiple of 8 bytes.
std::string safetensors_header(const std::vector<const ParameterSpan*>& arrays,
                               const std::map<std::string, std::string>& metadata);

// Reads the header of a file, of any program. Code::kNotFound; kData: it is no such file, or cut short.
Result<StoredModel> read_safetensors(const std::string& path);

}  // namespace dtrain::infer
