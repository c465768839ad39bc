// What gpu-check needs from CUDA itself. machine_cuda.cc implements it for the first GPU of a machine.
// machine_emulated.cc is linked with the emulator instead, so that the rest of the program is tested without a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "exec/executor.h"
#include "telemetry/gpu_use.h"

namespace dtrain::gpu {

struct Facts {
  std::string name;        // "NVIDIA H200"
  std::string capability;  // "9.0"
  int64_t processors = 0, memory_bytes = 0;
  std::string cuda_driver, cuda_runtime, cudnn, nccl;  // "13.0", "13.0", "9.19.0", "2.28.9"
  std::string properties;                              // cuDNN's own description, as JSON; see test/cuda/dnn/h200.json
};

struct MemoryUse {
  int64_t free_bytes = 0, total_bytes = 0;
};

// GB/s. Within the device each byte counts twice, as read and as written; otherwise once.
struct CopyRates {
  double device = 0, to_device = 0, to_host = 0;
};

// May be called from any thread, but not by two at once.
class Machine {
 public:
  virtual ~Machine() = default;
  [[nodiscard]] virtual const Facts& facts() const = 0;
  // Computes the same bits in every run.
  virtual exec::Backend& backend() = 0;
  // Measures which of cuDNN's plans are the fastest, as training does without --deterministic.
  virtual exec::Backend& fast_backend() { return backend(); }
  // Called by each thread before it uses the backend.
  virtual void use() = 0;
  // Waits until the device has done everything that was queued. An Error means that the device is lost for this
  // process.
  virtual Result<> synchronise() = 0;
  virtual MemoryUse memory() = 0;
  // Runs every operation on a group of one rank, twice as plain calls and once as a replayed graph. Each must leave its
  // array unchanged.
  virtual Result<> nccl_alone() = 0;
  virtual Result<CopyRates> copy_rates() = 0;
  // True if the device is emulated, which is a thousand times slower: parts without a given size should then be small.
  [[nodiscard]] virtual bool emulated() const { return false; }
  // The library that counts the use of GPUs (telemetry/gpu_use.h).
  virtual std::string nvml() { return telemetry::kNvml; }
  // The module that a dtrain beside this program would load for --gpus.
  virtual std::string module_path() = 0;
};

// Where cuDNN's plans are kept (exec::PlanSettings).
struct PlanFile {
  std::string path;                   // or empty: plans are not kept. Measured plans are in path + ".measured"
  double measuring_seconds_max = 60;  // for each network
};

// Code::kDevice says what to do.
Result<std::unique_ptr<Machine>> open_machine(const PlanFile& plans, const Log& log);

}  // namespace dtrain::gpu
