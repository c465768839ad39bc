#include "calls.h"
#include "product.h"
#include "stages.h"
#include "watching.h"

namespace dtrain::gpu {

namespace {

Product small_product() {
  return {.network = "mlp", .batch = 20, .epochs = 3, .patterns = 300, .accuracy_min = 0.8};
}

}  // namespace

std::vector<Part> quick_parts(Machine& machine, const Settings& settings) {
  std::vector<Part> parts = convolution_parts(machine);
  parts.push_back({"a step from pixels, by the loaded module", [&machine] { return step_from_pixels(machine); }});
  const Product product = machine.emulated() ? small_product() : Product();
  parts.push_back({product.network + " by the trainer",
                   [&machine, settings, product] { return train_by_trainer(machine, settings, product); }});
  Product one_epoch = product;
  one_epoch.epochs = 1;
  parts.push_back({"a trace of steps", [&machine, one_epoch] { return trace_steps(machine, one_epoch); }});
  parts.push_back({"use of the GPU", [&machine] { return use_of_device(machine); }});
  parts.push_back(rate_part(machine, "resnet-50"));
  parts.push_back(rate_part(machine, "resnet-v1.5-50"));
  parts.push_back(rate_part(machine, "resnet-v1-50"));
  parts.push_back({"calls of a step: resnet-50 float16 batch 256", [&machine] { return time_calls(machine, {}); }});
  // A very short version, to see only that it works.
  parts.push_back(
      {"calls of a step: lenet float16 batch 8", [&machine] {
         return time_calls(machine, {.network = "lenet", .batch = 8, .image = {1, 28, 28}, .classes = 10, .steps = 2});
       }});
  return parts;
}

}  // namespace dtrain::gpu
