// A network of the table of models, with its shapes.
#pragma once

#include "graph/models/models.h"

namespace dtrain::graph {

struct Built {
  Graph graph;
  Shapes shapes;
};

inline Built build(const ModelOptions& options) {
  Built built;
  built.graph = build_model(options).value();
  built.shapes = infer_shapes(built.graph, options.image).value();
  return built;
}

}  // namespace dtrain::graph
