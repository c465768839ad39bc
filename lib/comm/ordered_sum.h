// The only function in this directory that adds: sums of arrays, in a fixed order.
#pragma once

#include <cstddef>
#include <span>

namespace dtrain::comm {

// Writes sum[i] = ((inputs[0][i] + inputs[1][i]) + inputs[2][i]) + ... in float32, for i in [begin, begin + count), to
// all `outputs`. The bits of the result depend only on the inputs. An output may also be an input. Requires at least
// one input.
void ordered_sum(std::span<const float* const> inputs, std::span<float* const> outputs, size_t begin, size_t count);

}  // namespace dtrain::comm
