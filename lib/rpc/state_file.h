// What a scheduler has decided, in a directory (--state-dir), so that a scheduler that is started again can continue
// the job: DIR/scheduler.state, and DIR/scheduler.lock, which one scheduler at a time holds. The format is described in
// docs/formats.md, "State of a scheduler".
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace dtrain::rpc {

class StateFile {
 public:
  using Texts = std::map<std::string, std::string>;  // by key; they may contain any bytes
  struct Options {
    std::string directory;    // is created if it does not exist
    std::string job;          // tells jobs apart: the absolute path of the run directory
    bool comes_back = false;  // whether the scheduler is started again for a job whose other processes may still run
    AtomicFile::Fault fault = {};  // for tests: before each "open", "write" and "fsync"
  };

  // Locks the directory for as long as the object lives, reads what the last scheduler has written, and raises the
  // term, durably. Code::kUsage: another scheduler holds the lock, or the file belongs to another job that has not
  // ended. kData: the file is damaged, or cannot be written. kSchedulerLost: the scheduler comes back, but there is no
  // file.
  static Result<std::unique_ptr<StateFile>> open(const Options& options);
  virtual ~StateFile() = default;

  // Counts the schedulers of the job, from 1.
  [[nodiscard]] virtual uint64_t term() const = 0;
  // The texts that the last scheduler of this job has written; empty if the job is new or nothing was decided yet. To
  // be called before begin().
  [[nodiscard]] virtual const Texts& texts() const = 0;

  // Starts the thread that writes. It calls `on_written` with the number of each record that is durable. If a record
  // cannot be written, it removes the file, because an old one would contradict what processes hear later, calls
  // `on_written` with the error (Code::kData), once, and writes nothing more.
  virtual void begin(std::function<void(const Result<uint64_t>&)> on_written) = 0;
  // Adds a record with texts that are new or have changed. Any thread may call it; it does not wait.
  virtual void append(uint64_t number, Texts changes) = 0;
  // Waits until all records are written. `on_written` is not called anymore.
  virtual void end() = 0;
  // The job has ended: does the same, and removes the file.
  virtual void remove() = 0;
};

}  // namespace dtrain::rpc
