// Determines which elements a Dropout drops. This depends only on the image's key in the batch, the node's name and the
// element's position. So it is the same for any number of devices and threads and after a resume, and the backward pass
// recomputes it instead of storing it. cuda/kernels/dropout.cu has the same arithmetic.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "graph/graph.h"

namespace dtrain::exec {

struct DropRule {
  uint64_t node = 0;       // derived from the node's name
  uint32_t threshold = 0;  // elements whose random number is below this are dropped
  float factor = 1;        // the factor by which the kept elements are multiplied
};

DropRule drop_rule(const graph::Node& node, const graph::Dropout& op);

// The key from which the random numbers of one image at one node are derived.
inline uint64_t drop_key(const DropRule& rule, uint64_t image_key) {
  return mix64(image_key ^ rule.node);
}

// Whether an element is dropped. `element`: its position in [c, h, w].
inline bool is_dropped(const DropRule& rule, uint64_t drop_key, uint64_t element) {
  return static_cast<uint32_t>(mix64(drop_key + 0x9e3779b97f4a7c15 * element) >> 32) < rule.threshold;
}

}  // namespace dtrain::exec
