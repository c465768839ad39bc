#include "cuda/kernels/dropout.h"

#include "exec/dropout.h"
#include "support.h"

namespace dtrain::cuda::test {

namespace {

Floats kept(const exec::DropRule& rule, const std::vector<uint64_t>& keys, const Floats& x) {
  Floats y;
  const size_t each = x.size() / keys.size();
  for (size_t i = 0; i < x.size(); i++) {
    const bool dropped = exec::is_dropped(rule, exec::drop_key(rule, keys[i / each]), i % each);
    y.push_back(dropped ? 0.0f : x[i] * rule.factor);
  }
  return y;
}

}  // namespace

// Whatever the layout, type and order of threads.
TEST_CASE("a dropout leaves out the elements that it leaves out on the host", "[cuda]") {
  const graph::Node node{.name = "drop6", .op = graph::Dropout{0.5}, .inputs = {}, .data_inputs = {}};
  for (const Type type : kTypes) {
    for (const Extent& e : {Extent{2, 24, 5, 3}, Extent{3, 7, 1, 1}, Extent{2, 129, 2, 2}}) {
      for (const Lie& lie : kLies) {
        for (const double rate : {0.0, 0.5, 0.75}) {
          INFO("type " << static_cast<int>(type) << ", " << to_text(e) << ", gap " << lie.gap << ", rate " << rate);
          const exec::DropRule rule = exec::drop_rule(node, graph::Dropout{rate});
          const Floats x = rounded(type, normals(e.count(), 1));
          std::vector<uint64_t> keys;
          for (int64_t i = 0; i < e.n; i++) keys.push_back(mix64(static_cast<uint64_t>(i)));
          const Results results = in_all_orders([&] {
            const Map from(type, e, x, lie), to(type, e, lie);
            keep_elements({.type = type,
                           .rows = pixels(e),
                           .channels = e.c,
                           .positions = e.h * e.w,
                           .node = rule.node,
                           .threshold = rule.threshold,
                           .factor = rule.factor,
                           .keys = keys.data(),
                           .x = from.in(),
                           .y = to.out()},
                          nullptr);
            REQUIRE(to.gaps_are_untouched());
            return Results{to.get()};
          });
          REQUIRE(same_bits(results[0], rounded(type, kept(rule, keys, x))));
        }
      }
    }
  }
}

}  // namespace dtrain::cuda::test
