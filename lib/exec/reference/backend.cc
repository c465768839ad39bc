#include "exec/reference/backend.h"

#include <memory>

#include "exec/reference/executor.h"

namespace dtrain::exec {

namespace {

template <class T>
class ReferenceBackend final : public Backend {
 public:
  Result<std::unique_ptr<Executor>> compile(const graph::Graph& graph, const Options& options,
                                            Executor* weights_of) override {
    DT_TRY(std::unique_ptr<Executor> executor, reference::ReferenceExecutor<T>::compile(graph, options, weights_of));
    return executor;
  }
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend() {
  return std::make_unique<ReferenceBackend<float>>();
}
std::unique_ptr<Backend> make_reference_backend_f64() {
  return std::make_unique<ReferenceBackend<double>>();
}

}  // namespace dtrain::exec
