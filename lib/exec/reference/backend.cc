#include "exec/reference/executor.h"

namespace dtrain::exec {

namespace {

class ReferenceBackend final : public Backend {
 public:
  Result<std::unique_ptr<Executor>> compile(const graph::Graph& graph, const Options& options,
                                            Executor* weights_of) override {
    DT_TRY(std::unique_ptr<Executor> executor,
           reference::ReferenceExecutor<float>::compile(graph, options, weights_of));
    return executor;
  }
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace dtrain::exec
