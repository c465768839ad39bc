// An Executor is a graph compiled for one device, batch size, type and purpose. It is where computation and
// communication meet.
//
// Parameters are divided into buckets, which are intervals of the canonical order. Stores ask for several buckets if
// gradients are sent to servers, so that the gradients of late layers are in flight while those of early layers are
// still being computed. Otherwise they use a single bucket.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/waits.h"
#include "graph/ids.h"
#include "optim/loss_scale.h"
#include "tensor/batch.h"
#include "tensor/parameter_memory.h"
#include "tensor/parameters.h"
#include "tensor/type.h"

namespace dtrain::telemetry {
class Timeline;
}  // namespace dtrain::telemetry

namespace dtrain::exec {

using dtrain::Batch;

// Called before the first node that reads a bucket's weights, in ascending order of buckets. Returns when the weights
// may be read. An Error (for instance, a peer was lost) ends the forward pass, which returns it. With
// parameters_on_device, it may return as soon as the work that produces the weights is queued on the device.
using WeightsWait = std::function<Result<>(size_t bucket)>;
// Called in the backward pass once per bucket, in descending order, when all gradients of the bucket are complete. From
// then until the next forward pass waits for the bucket, the executor accesses neither its weights nor its gradients.
//
// With parameters_on_device, the gradients may not be complete yet, but work that the store queues on the device
// afterwards runs after them. The store must queue the same work in every step, because the work may be recorded once
// and replayed; in later steps, the calls then only supply the values that change. (The module's optimizer and
// collective ensure this.)
using GradientReady = std::function<Result<>(size_t bucket)>;

struct Options {
  enum class Purpose { kTraining, kInference };
  Purpose purpose = Purpose::kTraining;
  int64_t batch_size = 1;
  std::vector<InputForm> inputs;  // the network's inputs, in the order of Shapes::inputs; at most Batch::kInputsMax
  int threads = 1;                // compute threads, including the caller's
  // Whether to use Winograd for 3x3 convolutions where it is faster; relative errors are then 1e-5 instead of 1e-6.
  bool winograd = true;
  std::vector<size_t> bucket_begin = {0};  // index of each bucket's first parameter, ascending, starting with 0
  // The type of the tensors between nodes and of the factors in products. Code::kUsage if the device does not support
  // the type.
  Type dtype = Type::kFloat32;
  bool tf32 = false;  // for float32 on devices with TF32: products may be rounded to TF32's 10-bit mantissa
  // Keeps the learned tensors in device memory, where a store sums and updates them (see device_parameters()). Devices
  // that use host memory may ignore it.
  bool parameters_on_device = false;
  // All batches have the same inputs and labels as the first one, so a device with its own memory copies them only once
  // (--synthetic-on gpu). The keys still differ.
  bool same_batch = false;
  bool keep_all = false;  // whether to keep every node's output and gradient readable, for --check and tests
  telemetry::Timeline* timeline = nullptr;  // where the nodes' times are recorded; null: not recorded
  Waits* waits = nullptr;                   // where waits for a GPU are listed; null: they are not listed
};

// Not thread-safe. dtrain's own code allocates nothing after compile(). After a DeviceError the executor is unusable,
// but parameters() stay readable. Weights, gradients and statistics are initially zero. A device may still be computing
// when forward() returns; its results are complete once result(), parameters() or finish() has been called.
//
// A step of training is forward(), backward() and finish(). With parameters_on_device, backward() only launches the
// step, and finish() waits for it. A caller that launches the next step before it finishes a step keeps the device busy
// while the host looks at the results. At most kLaunchedMax steps may be launched and not finished. They run in order,
// and finish() ends the oldest one. Other executors have completed a step when backward() returns.
class Executor {
 public:
  static constexpr size_t kLaunchedMax = 2;
  virtual ~Executor() = default;

  // Computes the outputs; in training also the batch's statistics and what the backward pass needs. Errors are those of
  // `wait`, and Code::kData for a label that is not a class of the network. Labels may be absent for inference. In
  // training with parameters_on_device, the batch must stay unchanged until finish() or result() has returned.
  virtual Result<> forward(const Batch& batch, const WeightsWait& wait) = 0;
  // Computes all gradients for the batch of the last forward(): sums over the batch, not means. Previous gradients are
  // overwritten.
  virtual Result<> backward(const GradientReady& ready) = 0;
  // Waits until all work of the oldest launched step is done, including what the store has queued, so it also returns
  // the Errors of the store's group (Code::kPeerLost). Returns at once if no launched step is left.
  virtual Result<> finish() { return {}; }

  // For float16: multiplies the gradient of the loss by `state.scale`, and divides the parameters' gradients by it
  // again, so that values stay in float16's range. Takes effect with the next forward(); initially 1. Gradients that
  // overflow become non-finite; the step is then skipped and the scale lowered (docs/arithmetic.md, "Loss scaling").
  // Executors of other types ignore the scale.
  virtual void set_loss_scale(const optim::LossScaleState& state) { static_cast<void>(state); }
  // With parameters_on_device, before the first step: from now on the device itself skips a step if a sum of gradients
  // is not finite. Weights, optimizer state and statistics then stay as they were. The store must search the sums of
  // all buckets before it updates a weight (kvstore::DeviceDecisions). With `dynamic_scale`, the device then also
  // changes the loss scale after each step; a state set by the caller takes precedence.
  virtual void skip_bad_steps(bool dynamic_scale) { static_cast<void>(dynamic_scale); }
  // The state that the next step will use. With skip_bad_steps() it is known when all launched steps are finished.
  [[nodiscard]] virtual optim::LossScaleState loss_scale() { return {}; }
  // To be called between steps or while launched steps run: announces the batch of the next forward(), if the caller
  // can predict it, so that it can be copied to the device early. The batch must stay unchanged until the step of that
  // forward() is finished, or until another batch is announced; if neither happens, it must outlive the executor. {}
  // means no batch.
  virtual void announce(const Batch& batch) { static_cast<void>(batch); }

  // For callers that may leave a step out: from now on each forward() in training first keeps the moving statistics,
  // and undo_statistics() puts them back. False: the executor leaves this to the caller. An executor does it itself if
  // its statistics would otherwise have to be copied to the host in each step.
  virtual bool keep_statistics() { return false; }
  virtual void undo_statistics() {}

  // The view does not change. In training, the statistics in it are those of the last forward() when this function
  // returns, so a caller that holds the view must call the function again before it reads or writes the statistics. It
  // may wait for a device, so callbacks of a pass use a view that they hold.
  virtual const ParameterView& parameters() = 0;
  // Where the learned tensors are. With parameters_on_device this is an opaque view of device memory, and parameters()
  // is a copy on the host, which changes only by explicit copies (tensor/parameters.h). Otherwise it is parameters()
  // itself.
  virtual const ParameterView& device_parameters() { return parameters(); }
  // With parameters_on_device: whether the update of the step that finish() ended last was skipped because a sum of
  // gradients was not finite. Unless skip_bad_steps() was called, all later updates are skipped too.
  virtual bool skipped_update() { return false; }
  // With parameters_on_device, after a skipped update: the index of the last parameter whose sum of gradients is not
  // finite, among those that this device searches; nullopt: there is none, because another device has found the value.
  virtual std::optional<size_t> bad_gradient() { return std::nullopt; }
  // The number of the network's results.
  [[nodiscard]] virtual size_t heads() const = 0;
  // A result of the step that finish() ended last, or of the last forward() if that came later and backward() has not
  // launched its step: [n, outputs], row-major, the softmax of a loss. `head` is an index into Shapes::heads. Valid
  // until the next forward() or finish().
  virtual std::span<const float> result(size_t head) = 0;

  // With keep_all: a node's output in the last forward(), and the gradient of the loss with respect to that output
  // after the last backward(), in [n, c, h, w] order. The gradient is empty if none flows to the node: for the images,
  // and for nodes between them and the first parameter.
  virtual std::vector<float> node_output(graph::NodeId node) = 0;
  virtual std::vector<float> node_gradient(graph::NodeId node) = 0;

  // The bytes that the executor holds in addition to the parameters, for --dry-run.
  virtual size_t memory_bytes() const = 0;
};

// Compiles graphs for one kind of device. An Executor made with `weights_of` uses that executor's parameters and
// statistics in place, so that validation sees the weights being trained. `weights_of` must outlive the new one, come
// from the same backend, and not run at the same time.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Result<std::unique_ptr<Executor>> compile(const graph::Graph& graph, const Options& options,
                                                    Executor* weights_of = nullptr) = 0;
  // An allocator for batches that the executors of this backend, and of backends for other devices of the same kind,
  // can read without another copy on the host.
  virtual FloatAllocator batch_memory() { return allocate_floats; }
};

// Computes with plain loops in float32: slow, but the tests of all backends compare with it.
std::unique_ptr<Backend> make_reference_backend();
std::unique_ptr<Backend> make_cpu_backend();  // computes with oneDNN

inline Result<> no_wait(size_t) {
  return {};
}

}  // namespace dtrain::exec
