// The file format safetensors: a header in JSON, followed by the elements of all arrays. Source:
// https://github.com/huggingface/safetensors, "Format".
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "infer/stored_model.h"
#include "tensor/parameters.h"

namespace dtrain::infer {

// Returns the part of a file that precedes the floats: 8 bytes with the length of the header, then the header. The
// float32 arrays must follow in the given order, without gaps, row-major and little-endian. The length of this part is
// a multiple of 8 bytes.
std::string safetensors_header(const std::vector<const ParameterSpan*>& arrays,
                               const std::map<std::string, std::string>& metadata);

// Reads the header of a file from any program. Code::kNotFound: there is no such file; kData: it is not a safetensors
// file, or it is truncated.
Result<StoredModel> read_safetensors(const std::string& path);

}  // namespace dtrain::infer
