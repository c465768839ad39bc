// The one sum of this room: over arrays in a fixed order. distributed.md R-S4.
#pragma once

#include <cstddef>
#include <span>

namespace dtrain::comm {

// sum[i] = ((inputs[0][i] + inputs[1][i]) + inputs[2][i]) + ... in float32, for i in [begin, begin + count), goes to
// every one of `outputs`. Its bits depend on nothing but the inputs. An output may be an input too. At least one input.
void ordered_sum(std::span<const float* const> inputs, std::span<float* const> outputs, size_t begin, size_t count);

}  // namespace dtrain::comm
