// The interface of a loadable module with backends for devices such as GPUs. The program is not linked against it and
// works without it: role/setup/device_loader.h loads it when the user asks for GPUs. Module and program must come from
// the same build.
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

// How a device chooses among several ways to compute the same operation. Their results may differ in the last bits.
struct PlanSettings {
  // False: measures which is the fastest. True: measures nothing, and uses only ways that compute the same bits in
  // every run.
  bool deterministic = false;
  double measuring_seconds_max = 60;  // for each network; what is left then is chosen without measurement
  // Files; empty: none. The choices are searched in `run`, then in `cache`, and new ones are stored in both.
  std::string cache = {};    // the user's, for all runs
  std::string run = {};      // those of one process of a run, in the run directory
  std::string resumed = {};  // read in place of `run` if that does not exist: the file of the run that is resumed
  friend bool operator==(const PlanSettings&, const PlanSettings&) = default;
};

// Thread-safe. Must outlive the backends that it makes.
class DeviceModule {
 public:
  virtual ~DeviceModule() = default;

  // The number of devices: 0 if there are none, Code::kDevice with the reason if they cannot be used.
  virtual Result<int> device_count() = 0;
  // A description for logs and messages: "NVIDIA H200, sm_90, 132 processors, 139.8 GiB". Code::kDevice if there is no
  // such device.
  virtual Result<std::string> describe(int device) = 0;
  // The bus id by which other programs identify the device, regardless of CUDA_VISIBLE_DEVICES: "0000:3B:00.0".
  // Code::kDevice if there is no such device.
  virtual Result<std::string> pci_bus_id(int device) = 0;
  // The versions of the libraries that the module uses, such as "13.0"; empty for those that are absent.
  struct Versions {
    std::string driver = {}, runtime = {};  // the newest CUDA runtime that the driver supports, and the runtime in use
    std::string collectives = {};           // the version of the library that sums over several devices
  };
  virtual Versions versions() = 0;
  // The device memory that an executor with these options takes: for learned tensors, gradients and statistics, and
  // what grows with the batch. Needs no device, and therefore leaves out the workspace of convolutions. Errors are
  // those of the network and the options.
  struct PlannedBytes {
    size_t parameters = 0, batch = 0;
  };
  virtual Result<PlannedBytes> planned_bytes(const graph::Graph& graph, const Options& options) = 0;
  // Creates a backend for one device. Backends with the same files share their content, so devices of the same kind
  // make the same choices. Executors keep alive the parts of their backend that they need.
  virtual Result<std::unique_ptr<Backend>> make_backend(int device, const PlanSettings& plans, const Log& log) = 0;

  // make_optimizer and join serve a store that works on the device_parameters() of this module's training executors,
  // one executor per device. The executors must outlive the returned objects, which only queue work on the device, in
  // the order in which the executor calls WeightsWait and GradientReady. Code::kUsage for an unknown update rule.
  virtual Result<std::unique_ptr<optim::ArrayOptimizer>> make_optimizer(Executor& executor,
                                                                        const optim::OptimizerSpec& spec) = 0;
  // Joins the devices of all processes into one group and returns one member per executor. All processes must have the
  // same number of devices; ranks are numbered process by process. Errors: Code::kStartup or kDevice if the group
  // cannot be formed, and Errors of the exchange.
  virtual Result<std::vector<std::unique_ptr<comm::Collective>>> join(std::span<Executor* const> executors,
                                                                      const comm::Processes& processes) = 0;
  // Makes the devices of these executors sum the gradients of a step before they are copied to the host. The executors
  // must be training executors of this process whose parameters are on the host. Only the first executor gets the sum;
  // the gradients of the others are undefined. All of them must run the backward pass in every step, each on its own
  // thread. If the backward pass of one fails, those that wait for it return its Error. Errors: see join.
  virtual Result<> sum_gradients(std::span<Executor* const> executors) = 0;
};

// The module's only entry point, exported with C linkage under the name in base/module.h. Returns a new object that the
// caller owns.
using MakeDeviceModule = DeviceModule* (*)();

}  // namespace dtrain::exec
