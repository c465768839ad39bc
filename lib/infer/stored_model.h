// The content of a model file in the format of another program: its arrays, and metadata indexed by key.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/shape.h"

namespace dtrain::infer {

struct ArrayInfo {
  std::string name, type;
  Shape shape;
};

// Code::kData if a size is negative, or if the number of elements overflows.
Result<> check_shape(const ArrayInfo& array);

struct StoredModel {
  std::map<std::string, std::string> metadata;
  std::vector<ArrayInfo> arrays;
};

}  // namespace dtrain::infer
