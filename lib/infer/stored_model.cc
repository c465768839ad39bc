#include "infer/stored_model.h"

namespace dtrain::infer {

Result<> check_shape(const ArrayInfo& array) {
  constexpr int64_t kElementsMax = int64_t{1} << 40;
  int64_t elements = 1;
  for (const int64_t size : array.shape) {
    const bool fits = size >= 0 && (size == 0 || elements <= kElementsMax / size);
    if (!fits) return fail(Code::kData, "array '{}' has an impossible shape", array.name);
    elements *= size;
  }
  return {};
}

}  // namespace dtrain::infer
