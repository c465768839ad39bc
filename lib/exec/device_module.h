// What a module with backends for devices shows. The program is not linked with it and does without it: role's
// device_loader.h loads it when somebody asks for GPUs. Module and program are of one build.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "comm/collective.h"
#include "comm/exchange.h"
#include "exec/executor.h"
#include "optim/array_optimizer.h"

namespace dtrain::exec {

// Any thread may call it. It outlives the backends that it makes.
class DeviceModule {
 public:
  virtual ~DeviceModule() = default;

  // How many devices there are: 0, or Code::kDevice with the reason, where none can be used.
  virtual Result<int> device_count() = 0;
  // "NVIDIA H200, sm_90, 132 processors, 139.8 GiB", for logs and messages. Code::kDevice if there is no such device.
  virtual Result<std::string> describe(int device) = 0;
  // For executors of that device. plan_cache: a file in which what was found out about it is kept from run to run;
  // empty: none. Executors keep what they need of the backend alive.
  virtual Result<std::unique_ptr<Backend>> make_backend(int device, const std::string& plan_cache, const Log& log) = 0;

  // For a store over the device_parameters() of executors for training of this module's backends, one a device, which
  // outlive what is made. Both only queue work on the device, in the order that wait and ready of the executor say.
  // Code::kUsage: an unknown rule.
  virtual Result<std::unique_ptr<optim::ArrayOptimizer>> make_optimizer(Executor& executor,
                                                                        const optim::OptimizerSpec& spec) = 0;
  // An end each of one group of the devices of all processes, which have as many each; ranks are counted process by
  // process. Code::kStartup, kDevice: they did not come together; what the exchange returned.
  virtual Result<std::vector<std::unique_ptr<comm::Collective>>> join(std::span<Executor* const> executors,
                                                                      const comm::Processes& processes) = 0;
  // For executors for training of this process whose parameters are on the host: from now on their devices sum a step's
  // gradients before these leave them, and only the first executor's host has the sum; the others' gradients are of no
  // meaning. All of them go backward in every step, each in a thread of its own. An Error
  // of one's backward is also that of the others that still wait for it. Errors: join's.
  virtual Result<> sum_gradients(std::span<Executor* const> executors) = 0;
};

// The module's one entry, by this name and with C linkage: a new object, which the caller owns.
using MakeDeviceModule = DeviceModule* (*)();
inline constexpr const char* kMakeDeviceModule = "dtrain_make_device_module";

}  // namespace dtrain::exec
