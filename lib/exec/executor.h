// An Executor is a graph compiled for one device, batch size, type and purpose. Where compute and communication meet.
//
// Buckets are intervals of the parameters in canonical order. Stores ask for several when gradients travel, so that
// late layers are on their way while early ones still compute, and for one otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "tensor/batch.h"
#include "tensor/parameter_memory.h"
#include "tensor/parameters.h"
#include "tensor/pixels.h"
#include "tensor/shape.h"
#include "tensor/type.h"

namespace dtrain::exec {

using dtrain::Batch;

// Called before the first node that reads the bucket, first bucket first: returns when its weights may be read.
// An Error (a peer was lost while waiting) ends the forward pass, which returns it. With parameters_on_device: returns
// when what makes the bucket's weights is queued on the device.
using WeightsWait = std::function<Result<>(size_t bucket)>;
// Called in the backward pass when all gradients of the bucket are complete, last bucket first, once each. From then
// until the next forward's wait for it, the executor touches neither the bucket's weights nor its gradients. With
// parameters_on_device: the gradients need not be there yet, but what a store queues on the device from now on comes
// after them. What it queues is the same in every step: it may be recorded once and replayed, and the calls of later
// steps then only bring what changes (module's optimizer and group see to that).
using GradientReady = std::function<Result<>(size_t bucket)>;

struct Options {
  enum class Purpose { kTraining, kInference };
  Purpose purpose = Purpose::kTraining;
  int64_t batch_size = 1;
  Shape image;  // [c, h, w]
  // Of batches of pixels, which the executor makes numbers of so; nullptr: batches are of numbers.
  std::shared_ptr<const Normalisation> normalisation = nullptr;
  int threads = 1;       // of the compute; the caller's thread is one of them
  bool winograd = true;  // convolutions by Winograd where performance.md 3.2 says so: 1e-5 instead of 1e-6 exact
  std::vector<size_t> bucket_begin = {0};  // index of each bucket's first parameter, ascending, the first is 0
  Type dtype = Type::kFloat32;  // of tensors between nodes and of products; Code::kUsage where a device has it not
  bool tf32 = false;            // float32 on devices that have TF32: products may be rounded to its 10 bits
  // The learned tensors stay in the device's memory, where a store sums and updates them: device_parameters(). Devices
  // whose memory is the host's need not know.
  bool parameters_on_device = false;
  bool keep_all = false;  // keep every node's output and gradient readable: for --check and tests
};

// One thread calls it. After compile nothing is allocated by our code. DeviceError: of no further use; parameters()
// stay readable. Weights, gradients and statistics are zero at first. A device may still be at work when forward
// returns: what it computed is there once probabilities(), parameters() or backward was called.
class Executor {
 public:
  virtual ~Executor() = default;

  // Computes the outputs. In training, also the batch's statistics and what backward needs. Fails as `wait` does, and
  // with Code::kData for a label that is no class of the network (contract.h); for inference there need be no labels.
  // In training with parameters_on_device the batch stays as it is until backward, or probabilities(), has returned.
  virtual Result<> forward(const Batch& batch, const WeightsWait& wait) = 0;
  // Computes all gradients of the last forward's batch: sums over the batch, not means. Gradients are overwritten. With
  // parameters_on_device it returns when all that the store has queued is done too: Errors are those of the store's
  // group then (Code::kPeerLost).
  virtual Result<> backward(const GradientReady& ready) = 0;

  // For float16: the loss's gradient is multiplied by `scale`, a power of two, and the parameters' gradients divided by
  // it again, so that what float16 cannot hold lies elsewhere; from the next forward on. 1 at first. Gradients that
  // overflowed on the way are not finite: then the step is to be left out and the scale lowered (models.md 7.4). Other
  // types need no scale, and executors in them ignore it.
  virtual void set_loss_scale(double scale) { static_cast<void>(scale); }
  // With parameters_on_device, for an executor whose gradients nobody else adds to: from now on the device itself
  // leaves out a step that has a gradient which is not finite. Weights, the optimizer's state and statistics stay as
  // they were, has_bad_gradient() tells, and the store may be given the gradients before anybody has looked at them.
  // With `dynamic_scale` it also halves the loss scale then, and doubles it after enough good steps (kernels/update.h);
  // the scale that the caller sets counts where it differs. false: the caller has to look for itself.
  virtual bool leave_out_bad_steps(bool dynamic_scale) {
    static_cast<void>(dynamic_scale);
    return false;
  }
  // The good steps since a dynamic scale last changed, for a device that counts on from there.
  virtual void set_good_steps(uint32_t steps) { static_cast<void>(steps); }
  // The batch that the next forward but one will most likely be given: its copy to the device may run beside the step
  // that comes next. It stays as it is until that forward, or until another batch is announced. {}: none.
  virtual void announce(const Batch& batch) { static_cast<void>(batch); }
  // Whether a gradient of the last backward is not finite. Of float16 alone: elsewhere that is no overflow, and false.
  virtual bool overflowed() { return false; }

  virtual const ParameterView& parameters() = 0;
  // Where the learned tensors are: with parameters_on_device an opaque view of the device's memory, and parameters() is
  // the host's copy, which changes by copies alone (tensor/parameters.h). Otherwise parameters() itself.
  virtual const ParameterView& device_parameters() { return parameters(); }
  // With parameters_on_device nobody else sees the gradients. After backward: whether one of them is not finite; and
  // whether the device left out an update, this one or an earlier one, since what the store had summed was not finite.
  virtual bool has_bad_gradient() { return false; }
  virtual bool left_out_update() { return false; }
  // The softmax of the last forward, [n, classes], row-major: valid until the next forward.
  virtual std::span<const float> probabilities() = 0;

  // With keep_all: what a node put out in the last forward, and the loss's gradient by that output after the last
  // backward (empty where none flows: the images, and what has no parameters before it), in [n, c, h, w] order.
  virtual std::vector<float> node_output(graph::NodeId node) = 0;
  virtual std::vector<float> node_gradient(graph::NodeId node) = 0;

  // Bytes held besides parameters, and by what: for --dry-run.
  virtual size_t memory_bytes() const = 0;
};

// Compiles graphs for one kind of device. An Executor made with `weights_of` uses that executor's parameters and
// statistics in place (it must outlive the new one, come from the same backend, and not run at the same time): how
// validation sees the weights that training made.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Result<std::unique_ptr<Executor>> compile(const graph::Graph& graph, const Options& options,
                                                    Executor* weights_of = nullptr) = 0;
  // Memory for batches from which this backend's executors, and those for other devices of its kind, take them without
  // a copy on the host.
  virtual FloatAllocator batch_memory() { return allocate_floats; }
};

std::unique_ptr<Backend> make_reference_backend();  // plain loops in float32: the truth for every test, and slow
std::unique_ptr<Backend> make_cpu_backend();        // oneDNN

inline Result<> no_wait(size_t) {
  return {};
}

}  // namespace dtrain::exec
