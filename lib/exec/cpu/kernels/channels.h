// Concatenation along the channels in blocked layouts, forward and backward: copies of whole planes.
#pragma once

#include <vector>

#include "exec/cpu/kernels/elementwise.h"
#include "exec/cpu/layout.h"

namespace dtrain::exec::cpu {

// How the parts lie in the whole: equal n, h, w and lanes; the blocks add up, so each part but the last has whole
// blocks.
struct ConcatShape {
  BlockedShape whole;
  std::vector<int64_t> part_blocks;
};
// Whether tensors of these channels can lie side by side in blocks of `lanes`.
bool blocks_fit(const std::vector<int64_t>& channels, int64_t lanes);

void concat_parts(const ConcatShape& shape, const float* const* parts, float* whole);
// parts[i] = its slice of the sum of the `count` wholes, count <= kSourcesMax.
void split_sum(const ConcatShape& shape, const float* const* wholes, int count, float* const* parts);

}  // namespace dtrain::exec::cpu
