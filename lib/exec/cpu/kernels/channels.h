// Concatenation along the channels in blocked layouts, forward and backward: copies of whole planes.
#pragma once

#include <vector>

#include "exec/cpu/kernels/elementwise.h"
#include "exec/cpu/layout.h"

namespace dtrain::exec::cpu {

// How the parts are arranged in the whole. All have the same n, h, w and lanes. The blocks of the parts together are
// the blocks of the whole, so every part but the last fills its blocks.
struct ConcatShape {
  BlockedShape whole;
  std::vector<int64_t> part_blocks;
};
// Whether tensors with these numbers of channels can be concatenated in blocks of `lanes`.
bool blocks_fit(const std::vector<int64_t>& channels, int64_t lanes);

void concat_parts(const ConcatShape& shape, const float* const* parts, float* whole);
// Adds up `count` whole tensors and sets parts[i] to its slice of the sum; count <= kSourcesMax.
void split_sum(const ConcatShape& shape, const float* const* wholes, int count, float* const* parts);

}  // namespace dtrain::exec::cpu
