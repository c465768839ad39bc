#include "cases.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "cases/net.h"
#include "exec/contract.h"

namespace dtrain::exec::test {

namespace {

// The bias of "head" for class 0 with integers: e^-262144 is 0 in any type, and float32 sums of this size still resolve
// 1/16.
constexpr float kDecisive = 262144;

bool ends_with(const std::string& name, const char* suffix) {
  const std::string s = suffix;
  return name.size() >= s.size() && name.compare(name.size() - s.size(), s.size(), s) == 0;
}

void fill_identity(const ParameterSpan& p) {
  const auto channels = static_cast<size_t>(p.shape[0]);
  std::fill(p.weight.begin(), p.weight.end(), 0.0F);
  for (size_t i = 0; i < channels; i++) p.weight[i * channels + i] = 1;
}

void fill_integers(const ParameterSpan& p, RandomStream& random) {
  for (float& x : p.weight) x = static_cast<float>(random.below(5) - 2);
  if (p.name == "head_bias") p.weight[0] = kDecisive;
}

void fill_floats(const ParameterSpan& p, RandomStream& random) {
  const int64_t fan_in = p.shape.size() > 1 ? element_count(p.shape) / p.shape[0] : 1;
  const bool positive = ends_with(p.name, "_gamma") || ends_with(p.name, "_moving_var");
  const double bound = p.shape.size() > 1 ? std::sqrt(3.0 / static_cast<double>(fan_in)) : 0.5;
  for (float& x : p.weight) x = static_cast<float>((positive ? 1.0 : 0.0) + random.uniform(-bound, bound));
}

}  // namespace

std::vector<Case> operator_cases() {
  Table table;
  add_layer_cases(table);
  add_graph_cases(table);
  return table.take();
}

Options case_options(const Case& c) {
  Options options{.batch_size = c.batch, .inputs = {{.shape = c.image}}, .winograd = false, .keep_all = true};
  for (const Shape& shape : c.other_inputs) options.inputs.push_back({.shape = shape});
  return options;
}

void fill_parameters(const ParameterView& view, Values values, uint64_t seed) {
  RandomStream random(seed, Use::kTest, 1);
  for (const std::vector<ParameterSpan>* list : {&view.parameters, &view.statistics}) {
    for (const ParameterSpan& p : *list) {
      if (p.name == "before_weight") {
        fill_identity(p);
      } else if (values == Values::kIntegers) {
        fill_integers(p, random);
      } else {
        fill_floats(p, random);
      }
      if (p.name.ends_with("_moving_var")) {
        for (float& x : p.weight) x = std::abs(x) + 1;
      }
    }
  }
}

std::vector<uint64_t> make_keys(int64_t images, uint64_t seed) {
  RandomStream random(seed, Use::kTest, 4);
  std::vector<uint64_t> keys;
  for (int64_t i = 0; i < images; i++) keys.push_back(random.next());
  return keys;
}

namespace {

// Small whole numbers, or numbers equidistant in (-2, 2), shuffled. The 0.75 keeps even the middle one away from 0.
void add_numbers(int64_t elements, Values values, RandomStream& random, std::vector<float>& to) {
  for (const int64_t k : permutation(elements, random)) {
    const double spread = 4 * (static_cast<double>(k) + 0.75) / static_cast<double>(elements) - 2;
    to.push_back(static_cast<float>(values == Values::kIntegers ? static_cast<double>(random.below(9) - 4) : spread));
  }
}

}  // namespace

HostBatch make_batch(const Case& c, Values values, uint64_t seed) {
  RandomStream random(seed, Use::kTest, 2);
  HostBatch batch;
  batch.keys = make_keys(c.batch, seed);
  batch.others.resize(c.other_inputs.size());
  const graph::Shapes shapes = infer_shapes(c.graph, case_options(c)).value();
  for (int64_t n = 0; n < c.batch; n++) {
    add_numbers(element_count(c.image), values, random, batch.data);
    // With integers class 0 has all the probability, so it would have no gradient as a label.
    const int64_t lowest = values == Values::kIntegers ? 1 : 0;
    for (const graph::LabelInfo& label : shapes.labels) {
      batch.labels.push_back(static_cast<float>(lowest + random.below(label.classes - lowest)));
    }
    for (size_t i = 0; i < batch.others.size(); i++) {
      add_numbers(element_count(c.other_inputs[i]), values, random, batch.others[i]);
    }
  }
  return batch;
}

}  // namespace dtrain::exec::test
