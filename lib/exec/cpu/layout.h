// Layouts of activations for dtrain's own kernels: each image consists of blocks of channels, with `lanes` channels
// next to each other at each pixel. Channels are padded with zeros to whole blocks. Every kernel must keep the padding
// zero, because oneDNN relies on it.
#pragma once

#include <cstdint>
#include <optional>

#include "exec/cpu/dnnl_api.h"

namespace dtrain::exec::cpu {

enum class Order {
  kPlain,         // row-major [n, c, h, w], with 1 lane
  kBlocks8,       // oneDNN's nChw8c: blocks of 8 channels
  kBlocks16,      // oneDNN's nChw16c: blocks of 16 channels
  kChannelsLast,  // row-major [n, h, w, c]: one block with all channels
};

struct BlockedShape {
  Order order = Order::kPlain;
  int64_t n = 0, blocks = 0, h = 1, w = 1, lanes = 1;
  int64_t channels = 0;  // number of channels without padding
  [[nodiscard]] int64_t planes() const { return n * blocks; }
  [[nodiscard]] int64_t plane_elements() const { return h * w * lanes; }
  [[nodiscard]] int64_t elements() const { return planes() * plane_elements(); }
};

Md plain_md(const Dims& dims);  // row-major layout of [n, c, h, w], [n, c], [filters, c, kernel_h, kernel_w] or [c]
Md any_md(const Dims& dims);    // a layout that oneDNN chooses
Md md_in(Order order, const Dims& dims);  // the layout `order` of [n, c, h, w]; or of [n, c] with kPlain

// The blocks of a tensor [n, c, h, w] in this order, or of [n, c] with kPlain.
BlockedShape shape_in(Order order, const Dims& dims);

// The blocks of a descriptor; nullopt unless it is [n, c] or [n, c, h, w] in one of the orders above. Some orders
// coincide, for example for maps of one pixel, and cannot be distinguished. To give two tensors the same order,
// determine the order of one of them and use it for both.
std::optional<BlockedShape> blocked_shape(const Md& md);

// Whether two layouts place the same elements at the same addresses, so that no reorder is needed.
bool same_order(const Md& a, const Md& b);

}  // namespace dtrain::exec::cpu
