#include "exec/cpu/layout.h"

#include "base/error.h"

namespace dtrain::exec::cpu {

using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

Md plain_md(const Dims& dims) {
  constexpr Tag kTags[] = {Tag::undef, Tag::a, Tag::ab, Tag::abc, Tag::abcd, Tag::abcde};
  DT_CHECK(!dims.empty() && dims.size() < std::size(kTags), "{} dimensions", dims.size());
  return {dims, Type::f32, kTags[dims.size()]};
}

Md any_md(const Dims& dims) {
  return {dims, Type::f32, Tag::any};
}

Md md_in(Order order, const Dims& dims) {
  if (order == Order::kPlain) return plain_md(dims);
  DT_CHECK(dims.size() == 4, "a layout in blocks of channels needs 4 dimensions, not {}", dims.size());
  if (order == Order::kChannelsLast) return {dims, Type::f32, Tag::nhwc};
  return {dims, Type::f32, order == Order::kBlocks8 ? Tag::nChw8c : Tag::nChw16c};
}

namespace {

int64_t lanes_of(Order order, int64_t channels) {
  switch (order) {
    case Order::kPlain: return 1;
    case Order::kBlocks8: return 8;
    case Order::kBlocks16: return 16;
    case Order::kChannelsLast: return channels;
  }
  return 1;
}

}  // namespace

BlockedShape shape_in(Order order, const Dims& dims) {
  const int64_t lanes = lanes_of(order, dims[1]);
  const bool map = dims.size() == 4;
  return {order, dims[0], (dims[1] + lanes - 1) / lanes, map ? dims[2] : 1, map ? dims[3] : 1, lanes, dims[1]};
}

std::optional<BlockedShape> blocked_shape(const Md& md) {
  const Dims dims = dims_of(md);
  if (dims.size() == 2 && md == plain_md(dims)) return shape_in(Order::kPlain, dims);
  if (dims.size() != 4) return std::nullopt;
  for (const Order order : {Order::kBlocks16, Order::kBlocks8, Order::kPlain, Order::kChannelsLast}) {
    if (md == md_in(order, dims)) return shape_in(order, dims);
  }
  return std::nullopt;
}

bool same_order(const Md& a, const Md& b) {
  const auto x = blocked_shape(a), y = blocked_shape(b);
  if (!x || !y || x->n != y->n) return false;
  // With one pixel, blocked channels have the same order as separate channels, but the padding must agree.
  const bool plain = x->lanes == y->lanes || (x->h * x->w == 1 && y->h * y->w == 1);
  return plain && x->elements() == y->elements() && x->channels * x->h * x->w == y->channels * y->h * y->w;
}

}  // namespace dtrain::exec::cpu
