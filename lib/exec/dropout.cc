#include "exec/dropout.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/crc32c.h"

namespace dtrain::exec {

DropRule drop_rule(const graph::Node& node, const graph::Dropout& op) {
  const double threshold = std::min(std::round(op.rate * 0x1p32), 0x1p32 - 1);
  return {.node = mix64(crc32c(std::as_bytes(std::span(node.name)))),
          .threshold = static_cast<uint32_t>(threshold),
          .factor = static_cast<float>(1 / (1 - op.rate))};
}

}  // namespace dtrain::exec
