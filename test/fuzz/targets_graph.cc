#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "fuzz/refusal.h"
#include "fuzz/targets.h"
#include "graph/symbol/parse.h"
#include "graph/symbol/read.h"
#include "graph/symbol/write.h"
#include "tensor/ndarray_file.h"

namespace dtrain::fuzz {

namespace {

Result<graph::Graph> network_of(std::string_view bytes) {
  DT_TRY(graph::SymbolFile file, graph::parse_symbol_file(bytes));
  return graph::read_symbol(std::move(file));
}

bool is_trainable(const graph::Graph& graph) {
  return std::ranges::all_of(graph.heads(), [&](graph::NodeId head) { return graph::is_loss(graph.node(head).op); });
}

std::string bytes_of(const std::vector<StoredArray>& arrays) {
  std::vector<StoredArrayView> views;
  for (const StoredArray& array : arrays) {
    StoredArrayView& view = views.emplace_back(StoredArrayView{.name = array.name, .shape = array.shape, .values = {}});
    std::visit([&](const auto& values) { view.values = std::span(values); }, array.values);
  }
  return to_ndarray_bytes(views);
}

}  // namespace

bool read_symbol_bytes(std::string_view bytes) {
  const Result<graph::Graph> graph = network_of(bytes);
  if (!graph) return refused(graph.error());
  const std::string written = graph::symbol_text(*graph);
  const Result<graph::Graph> again = network_of(written);
  DT_CHECK(again, "the written file is refused: {}", again.error().text());
  DT_CHECK(graph::symbol_text(*again) == written, "the written file is read as another network");
  if (!is_trainable(*graph)) return false;
  const Result<graph::Shapes> shapes =
      graph::infer_shapes(*graph, graph::stated_image(*graph).value_or(Shape{3, 224, 224}));
  if (!shapes) return refused(shapes.error());
  DT_CHECK(shapes->labels.at(0).classes >= 1, "the network has {} classes", shapes->labels[0].classes);
  DT_CHECK(graph::multiply_accumulates(*graph, *shapes) >= 0, "the number of operations is negative");
  return true;
}

bool read_params_bytes(std::string_view bytes) {
  const Result<std::vector<StoredArray>> arrays = parse_ndarray_bytes(bytes);
  if (!arrays) return refused(arrays.error());
  const std::string written = bytes_of(*arrays);
  const Result<std::vector<StoredArray>> again = parse_ndarray_bytes(written);
  DT_CHECK(again, "the written arrays are refused: {}", again.error().text());
  DT_CHECK(bytes_of(*again) == written, "the written arrays are read as others");
  return true;
}

}  // namespace dtrain::fuzz
