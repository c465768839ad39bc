#include "cases/net.h"

#include <algorithm>

namespace dtrain::exec::test {

namespace {

using namespace dtrain::graph;

// Freezes all that these nodes learn.
void freeze(Graph& graph, const std::vector<NodeId>& nodes) {
  for (const NodeId id : nodes) {
    for (const TensorId input : std::vector<TensorId>(graph.node(id).inputs)) {
      const std::optional<VariableId> variable = graph.variable(input);
      if (variable && graph.variables()[*variable].role == Variable::Role::kLearned) graph.set_job_rate(*variable, 0);
    }
  }
}

NodeId id_of(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.nodes(), name, &Node::name);
  return static_cast<NodeId>(found - graph.nodes().begin());
}

// Chains that a backend may fuse.
void chains(Table& t) {
  const Shape image = {16, 8, 8};
  Net global(image);
  const NodeId gb = global.add("bn", BatchNorm{.fix_gamma = false, .global_statistics = true}, {global.x()});
  Case& by_global =
      t.put("batch norm by global statistics, relu", image, global.finish(global.add("relu", Activation{}, {gb})));
  by_global.exact = by_global.smooth = false;
  Net global_sum(image);
  const NodeId gs = global_sum.add("bn", BatchNorm{.fix_gamma = false, .global_statistics = true}, {global_sum.x()});
  const NodeId added = global_sum.add("plus", Add{}, {gs, global_sum.x()});
  Case& sum_of_global = t.put("batch norm by global statistics, sum, relu", image,
                              global_sum.finish(global_sum.add("relu", Activation{}, {added})));
  sum_of_global.exact = sum_of_global.smooth = false;

  Net conv(image);
  const NodeId c =
      conv.add("conv", Convolution{.filters = 24, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1}, {conv.x()});
  const NodeId r = conv.add("relu", Activation{}, {c});
  t.put("convolution, relu, pooling", image, conv.finish(conv.add("pool", pooling(kMax, 2, 2, 0), {r}))).smooth = false;

  Net normed(image);
  const NodeId nc = normed.add("conv", Convolution{.filters = 24, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1},
                               {normed.x()});
  const NodeId nb = normed.add("bn", BatchNorm{.fix_gamma = false}, {nc});
  Case& unit = t.put("convolution, batch norm, relu", image, normed.finish(normed.add("relu", Activation{}, {nb})));
  unit.exact = unit.smooth = false;
  unit.batch = 4;

  Net v1(image);
  const NodeId c1 = v1.add("conv1", conv3x3(16), {v1.x()}), b1 = v1.add("bn1", BatchNorm{.fix_gamma = false}, {c1});
  const NodeId r1 = v1.add("relu1", Activation{}, {b1});
  const NodeId c2 = v1.add("conv2", conv3x3(16), {r1}), b2 = v1.add("bn2", BatchNorm{.fix_gamma = false}, {c2});
  const NodeId sum = v1.add("plus", Add{}, {b2, v1.x()});
  Case& post = t.put("residual unit, relu after the sum", image, v1.finish(v1.add("relu2", Activation{}, {sum})));
  post.exact = post.smooth = false;
  post.batch = 4;

  Net v2(image);
  const NodeId bn = v2.add("bn1", BatchNorm{.fix_gamma = false}, {v2.x()}), act = v2.add("relu1", Activation{}, {bn});
  const NodeId body = v2.add("conv1", conv3x3(32, 2), {act}), shortcut = v2.add("sc", conv1x1(32, 2), {act});
  Case& pre = t.put("residual unit, projection of the activated input", image,
                    v2.finish(v2.add("plus", Add{}, {body, shortcut})));
  pre.exact = pre.smooth = false;
  pre.batch = 4;

  Net fan(image);
  const NodeId e = fan.add("relu", Activation{}, {fan.x()});
  const NodeId x1 = fan.add("x1", conv1x1(8), {e}), x3 = fan.add("x3", conv3x3(8), {e});
  const NodeId xp = fan.add("pool", pooling(kMax, 3, 1, 1), {e}), xr = fan.add("relu2", Activation{}, {x3});
  t.put("four branches of one relu", image, fan.finish(fan.add("op", Concat{}, {x1, xr, xp, e}))).smooth = false;
}

// Few channels, so that integers stay exact through several layers.
void shared_weights(Table& t) {
  const Shape image = {4, 6, 6};
  Net chain(image);
  const NodeId a = chain.add("a", Convolution{.filters = 4}, {chain.x()});
  t.put("two convolutions share weight and bias", image, chain.finish(chain.share("b", a, a)));

  Net branches(image);
  const NodeId left = branches.add("left", conv3x3(4), {branches.x()});
  const NodeId right = branches.share("right", left, branches.x());
  t.put("two convolutions with one weight read one input", image,
        branches.finish(branches.add("plus", Add{}, {left, right})));

  Net dense({2, 2, 2});
  const NodeId f0 = dense.add("f0", FullyConnected{.outputs = 4}, {dense.x()});
  const NodeId f1 = dense.add("f1", FullyConnected{.outputs = 4}, {f0});
  const NodeId f2 = dense.share("f2", f1, f0);
  t.put("three fully connected layers share weight and bias", {2, 2, 2}, dense.finish(dense.share("f3", f1, f2)));

  Net large({2, 2, 2});  // the CPU has another implementation for these
  const NodeId wide = large.add("wide", FullyConnected{.outputs = 192}, {large.x()});
  const NodeId g1 = large.add("g1", FullyConnected{.outputs = 192}, {wide});
  Case& products = t.put("two large fully connected layers share weight and bias", {2, 2, 2},
                         large.finish(large.share("g2", g1, g1)));
  products.exact = products.smooth = false;

  Net both({4, 2, 2});  // devices store these inputs in different orders
  const NodeId m0 = both.add("m0", FullyConnected{.outputs = 16}, {both.x()});
  t.put("fully connected layers of a map and of a vector share a weight", {4, 2, 2},
        both.finish(both.share("m1", m0, m0)));

  Net grouped({3, 6, 6}, true);  // GPUs pad images of three channels
  const NodeId whole = grouped.add("whole", conv3x3(6), {grouped.x()});
  Convolution halves = conv3x3(6);
  halves.groups = 2;
  t.put("convolutions of one group and of two share a weight", {3, 6, 6},
        grouped.finish(grouped.share("halves", whole, whole, halves)))
      .exact = false;

  Net normed(image);
  const NodeId n1 = normed.add("n1", BatchNorm{.fix_gamma = false}, {normed.x()});
  const NodeId between = normed.add("conv", conv1x1(4), {n1});
  Case& norms = t.put("two batch norms share all", image, normed.finish(normed.share("n2", n1, between)));
  norms.exact = false;
  norms.batch = 4;
}

// Layers that keep their values.
void frozen_layers(Table& t) {
  const Shape image = {4, 6, 6};
  const BatchNorm norm{.fix_gamma = false};
  Net low(image, true);
  const NodeId c1 = low.add("c1", conv3x3(8), {low.x()}), b1 = low.add("b1", norm, {c1});
  const NodeId c2 = low.add("c2", conv3x3(8), {low.add("r1", Activation{}, {b1})}), b2 = low.add("b2", norm, {c2});
  Graph g = low.finish(low.add("plus", Add{}, {b2, b1}));
  freeze(g, {c1, b1});
  t.put("a frozen convolution and batch norm below others", image, std::move(g));

  Net between(image);
  const NodeId d1 = between.add("d1", conv1x1(4), {between.x()}), d2 = between.add("d2", conv1x1(4), {d1});
  const NodeId n2 = between.add("n2", norm, {d2});
  Graph h = between.finish(between.add("d3", conv1x1(4), {n2}));
  freeze(h, {d2, n2});
  t.put("a frozen convolution and batch norm between others", image, std::move(h));
  for (const size_t back : {1, 2}) {
    Case& c = t.last(back);
    c.exact = c.smooth = false;  // the gradients of frozen tensors below all others are 0
    c.batch = 4;
  }
}

// Graphs with several results.
void heads(Table& t) {
  const Shape image = {4, 6, 6};
  Net two(image);
  const NodeId a = two.add("a", conv1x1(4), {two.x()});
  Graph g = two.finish(two.share("b", a, a));
  const NodeId early = g.add("early_flatten", Flatten{}, {a});
  const NodeId early_head = add_like(g, "early_head", id_of(g, "head"), early);
  const NodeId softmax = id_of(g, "softmax");
  g.add_head(softmax);
  g.add_head(add_like(g, "early_softmax", softmax, early_head));
  t.put("two losses with one head and one weight", image, std::move(g));

  Net side(image);
  const NodeId c = side.add("c", conv1x1(4), {side.x()});
  Graph h = side.finish(c);
  h.add_head(id_of(h, "softmax"));
  const NodeId d = add_like(h, "d", c, c);
  h.add_head(h.add("unlearned", FullyConnected{.outputs = 3}, {d}));
  t.put("a branch without a loss", image, std::move(h));

  Net apart(image);
  const NodeId e = apart.add("e", conv1x1(4), {apart.x()});
  Graph i = apart.finish(e);
  i.add_head(id_of(i, "softmax"));
  const NodeId few = i.add("few", FullyConnected{.outputs = 3}, {i.add("few_flatten", Flatten{}, {e})});
  i.add_head(i.add("other", SoftmaxOutput{}, {few}));
  t.put("two losses with labels of their own", image, std::move(i)).exact = false;
}

// Graphs with several inputs.
void inputs(Table& t) {
  const Shape image = {4, 6, 6};
  Net vector(image);
  const NodeId map = vector.add("map", FullyConnected{.outputs = 6}, {vector.x()});
  const NodeId numbers = vector.add("numbers", Input{}, {});
  const NodeId dense = vector.add("dense", FullyConnected{.outputs = 6}, {numbers});
  t.put("a map and a vector", image, vector.finish(vector.add("plus", Add{}, {map, dense}))).other_inputs = {{5}};

  Net maps(image);
  const NodeId left = maps.add("left", conv1x1(4), {maps.x()});
  const NodeId right = maps.add("right", conv3x3(4, 2), {maps.add("second", Input{}, {})});
  t.put("two maps", image, maps.finish(maps.add("plus", Add{}, {left, right}))).other_inputs = {{3, 12, 12}};
}

}  // namespace

void add_graph_cases(Table& table) {
  inputs(table);
  chains(table);
  shared_weights(table);
  frozen_layers(table);
  heads(table);
}

}  // namespace dtrain::exec::test
