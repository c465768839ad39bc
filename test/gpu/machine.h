// What gpu-check asks of CUDA itself: one implementation for the first GPU of a machine (machine_cuda.cc), one that is
// linked with the emulator instead (machine_emulated.cc), so that all the rest of the program is tested without a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "exec/executor.h"

namespace dtrain::gpu {

struct Facts {
  std::string name;        // "NVIDIA H200"
  std::string capability;  // "9.0"
  int64_t processors = 0, memory_bytes = 0;
  std::string cuda_driver, cuda_runtime, cudnn, nccl;  // "13.0", "13.0", "9.19.0", "2.28.9"
  std::string properties;                              // cuDNN's own description, JSON: test/cuda/dnn/h200.json
};

struct MemoryUse {
  int64_t free_bytes = 0, total_bytes = 0;
};

// GB/s. Within the device each byte counts twice, as read and as written; else once.
struct CopyRates {
  double device = 0, to_device = 0, to_host = 0;
};

// Any thread may call it, one at a time.
class Machine {
 public:
  virtual ~Machine() = default;
  [[nodiscard]] virtual const Facts& facts() const = 0;
  virtual exec::Backend& backend() = 0;
  // For the calling thread, before it uses the backend.
  virtual void use() = 0;
  // Waits until the device has done all that was queued. An Error: it is lost, and with it this process's use of it.
  virtual Result<> synchronise() = 0;
  virtual MemoryUse memory() = 0;
  // A group of one rank: every operation leaves its array as it is, twice as plain calls and once as a replayed graph.
  virtual Result<> nccl_alone() = 0;
  virtual Result<CopyRates> copy_rates() = 0;
  // All is a thousand times slower: what does not ask for a size is to be small.
  [[nodiscard]] virtual bool emulated() const { return false; }
  // The module that a dtrain beside this program would load for --gpus.
  virtual std::string module_path() = 0;
};

// plan_cache: a file, or empty (cuda/executor/dnn_runner.h). Code::kDevice, with what to do about it.
Result<std::unique_ptr<Machine>> open_machine(const std::string& plan_cache, const Log& log);

}  // namespace dtrain::gpu
