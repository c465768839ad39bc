#pragma once

#include "exec/dropout.h"
#include "exec/reference/spans.h"

namespace dtrain::exec::reference {

// y += x, multiplied by the rule's factor, for the elements of an image that are not left out. With y zero before it is
// the forward pass; from dy to dx it is backward. Does nothing if y is empty. keys: of the n images.
template <class T>
void add_kept(const DropRule& rule, std::span<const uint64_t> keys, In<T> x, Out<T> y);

}  // namespace dtrain::exec::reference
