// The payloads of messages between workers and servers: raw little-endian float32 values, as they lie in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dtrain::kvstore {

// The largest slice, in elements (placement.h), and the largest payload of any message: 1 MiB. Messages of this size
// gave the highest throughput over gRPC.
inline constexpr uint32_t kSliceElementsMax = 1 << 18;
inline constexpr size_t kPayloadBytesMax = kSliceElementsMax * sizeof(float);

// The parts of a received payload, in order. They may be split anywhere, even inside a float.
using Pieces = std::span<const std::span<const std::byte>>;

size_t byte_count(Pieces pieces);

// copy_floats and copy_gradient copy the values to `out`; add_gradient adds them to `sum`, element by element. The
// pieces must hold exactly as many float32 values as `out` or `sum`; callers must check byte_count() first, because
// payloads come from a peer. The two functions for gradients return false if a resulting value is infinite or NaN. This
// check costs no time, because memory is slower than the comparison.
void copy_floats(Pieces pieces, std::span<float> out);
[[nodiscard]] bool copy_gradient(Pieces pieces, std::span<float> out);
[[nodiscard]] bool add_gradient(Pieces pieces, std::span<float> sum);

}  // namespace dtrain::kvstore
