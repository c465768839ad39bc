// Which of the lines that the processes of a job print appear on the launcher's screen, and how.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/live.h"
#include "launch/command.h"

namespace dtrain::launch {

enum class ShownLogs {
  kAll,
  kFirstWorker,  // of the scheduler and of the first worker that is started here; of the others what is no ordinary line
                 // of their log: warnings, errors, crashes
  kForPeople,    // the same without time and node, and without what is for log files only (job/process/people.h)
};

struct ShownLine {
  std::string text;
  Fit fit = Fit::kAsIs;
};

class ShownLines {
 public:
  explicit ShownLines(ShownLogs shown) : shown_(shown) {}

  void started(const Command& command);
  // How a line of this process appears; nullopt: it does not.
  [[nodiscard]] std::optional<ShownLine> shown(const Command& command, const std::string& line) const;
  // Where a worker runs; empty if it was not started here.
  [[nodiscard]] std::string host_of_worker(uint32_t rank) const;

 private:
  [[nodiscard]] bool speaks_for_job(const Command& command) const;

  ShownLogs shown_;
  std::map<uint32_t, std::string> hosts_;  // of the workers
};

}  // namespace dtrain::launch
