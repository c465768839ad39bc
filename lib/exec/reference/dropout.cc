#include "exec/reference/dropout.h"

namespace dtrain::exec::reference {

template <class T>
void add_kept(const DropRule& rule, std::span<const uint64_t> keys, In<T> x, Out<T> y) {
  const size_t each = y.size() / keys.size();
  for (size_t i = 0; i < y.size(); i++) {
    const uint64_t key = drop_key(rule, keys[i / each]);
    if (!is_dropped(rule, key, i % each)) y[i] += x[i] * rule.factor;
  }
}

template void add_kept<float>(const DropRule&, std::span<const uint64_t>, In<float>, Out<float>);
template void add_kept<double>(const DropRule&, std::span<const uint64_t>, In<double>, Out<double>);

}  // namespace dtrain::exec::reference
