#include "exec/cpu/kernels/channels.h"

#include <cstring>

#include "base/simd.h"
#include "exec/cpu/kernels/elementwise.h"
#include "exec/cpu/parallel.h"

namespace dtrain::exec::cpu {

namespace {

void copy_sum(const float* const* sources, int count, int64_t offset, float* y, int64_t n) {
  if (count == 1) {
    std::memcpy(y, sources[0] + offset, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  add_pair(sources[0] + offset, sources[1] + offset, y, n);
  for (int s = 2; s < count; s++) add_pair(y, sources[s] + offset, y, n);
}

// For each part of each image in [begin, end), calls visit with the part's index, the offset in the part, the offset in
// the whole, and the number of elements.
template <class Visit>
void for_pieces(const ConcatShape& shape, int64_t begin, int64_t end, const Visit& visit) {
  const int64_t plane = shape.whole.plane_elements();
  for (int64_t n = begin; n < end; n++) {
    int64_t at = n * shape.whole.blocks * plane;
    for (size_t part = 0; part < shape.part_blocks.size(); part++) {
      const int64_t size = shape.part_blocks[part] * plane;
      visit(part, n * size, at, size);
      at += size;
    }
  }
}

}  // namespace

bool blocks_fit(const std::vector<int64_t>& channels, int64_t lanes) {
  for (size_t i = 0; i + 1 < channels.size(); i++) {
    if (channels[i] % lanes != 0) return false;
  }
  return true;
}

void concat_parts(const ConcatShape& shape, const float* const* parts, float* whole) {
  parallel_shares(shape.whole.n, shape.whole.elements(), [&](int64_t begin, int64_t end) {
    for_pieces(shape, begin, end, [&](size_t part, int64_t from, int64_t to, int64_t size) {
      std::memcpy(whole + to, parts[part] + from, static_cast<size_t>(size) * sizeof(float));
    });
  });
}

void split_sum(const ConcatShape& shape, const float* const* wholes, int count, float* const* parts) {
  parallel_shares(shape.whole.n, shape.whole.elements() * count, [&](int64_t begin, int64_t end) {
    for_pieces(shape, begin, end, [&](size_t part, int64_t to, int64_t from, int64_t size) {
      copy_sum(wholes, count, from, parts[part] + to, size);
    });
  });
}

}  // namespace dtrain::exec::cpu
