// Conversions between the orders used on the device and those used elsewhere: maps NHWC and NCHW, weights KRSC and
// [filters, c, kernel_h, kernel_w] ("canonical"). kernels/tensor.h has the conventions of all kernels.
#pragma once

#include "cuda/kernels/tables.h"
#include "cuda/kernels/tensor.h"

namespace dtrain::cuda {

// Converts planar [n, channels, positions], dense, to or from map [n, positions, channels], with a pitch. The planar
// side has the map's type or float32. With positions = h*w this is Flatten, whose order is c, h, w, and its backward
// pass. It is also used to read a node's output or gradient. (A FullyConnected after a Flatten need not permute x: if
// its weights are stored as KRSC with the positions as taps, they match x as it is stored.)
// Bytes: n * channels * positions * (bytes_of(type) + bytes_of(planar_type)).
struct Planar {
  Type type = Type::kFloat32, planar_type = Type::kFloat32;
  int64_t n = 0, channels = 0, positions = 0;
};
void to_planar(const Planar& shape, const In& map, void* planar, cudaStream_t stream);
void from_planar(const Planar& shape, const void* planar, const Out& map, cudaStream_t stream);

// A layer's weights, or their gradient, in both forms: canonical [filters, channels, taps], float32, and stored
// [filters, taps, stored_channels] in `type`, where taps is kernel_h * kernel_w in row-major order. Stored channels
// beyond `channels` (an image's 3 channels may be stored as 4 or 8) are zero. Fewer than 2^31 elements. The chunks of a
// table count the elements that are written.
struct WeightTensor {
  float* canonical = nullptr;
  void* stored = nullptr;
  Type type = Type::kFloat32;
  int32_t filters = 0, channels = 0, taps = 0, stored_channels = 0;
};
inline int64_t canonical_count(const WeightTensor& t) {
  return int64_t{t.filters} * t.channels * t.taps;
}
inline int64_t stored_count(const WeightTensor& t) {
  return int64_t{t.filters} * t.taps * t.stored_channels;
}
// Bytes moved by a conversion in either direction.
inline int64_t conversion_bytes(std::span<const WeightTensor> tensors) {
  int64_t bytes = 0;
  for (const WeightTensor& t : tensors) bytes += 4 * canonical_count(t) + bytes_of(t.type) * stored_count(t);
  return bytes;
}

// stored = canonical, converted to `type`. The chunks of the table count stored_count elements.
void store_weights(const Table<WeightTensor>& table, cudaStream_t stream);
// canonical = stored * factor. factor is one float in device memory, 1 / loss scale for gradients; null counts as 1.
// The chunks of the table count canonical_count elements.
void read_weights(const Table<WeightTensor>& table, const float* factor, cudaStream_t stream);

}  // namespace dtrain::cuda
