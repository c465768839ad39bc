// Which of the lines that the processes of a job print appear on the launcher's screen, and how.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/live.h"
#include "launch/command.h"

namespace dtrain::launch {

struct ShownLine {
  std::string text;
  Fit fit = Fit::kAsIs;
};

// The lines of the scheduler and of the first worker that is started here. Of the others those that are no ordinary
// line of their log: warnings, errors, crashes. `is_for_people`: without time and node, and without what is for log
// files only (job/process/people.h).
class ShownLines {
 public:
  explicit ShownLines(bool is_for_people) : is_for_people_(is_for_people) {}

  void started(const Command& command);
  // How a line of this process appears; nullopt: it does not.
  [[nodiscard]] std::optional<ShownLine> shown(const Command& command, const std::string& line) const;
  // Where a worker runs; empty if it was not started here.
  [[nodiscard]] std::string host_of_worker(uint32_t rank) const;

 private:
  [[nodiscard]] bool speaks_for_job(const Command& command) const;

  bool is_for_people_;
  std::map<uint32_t, std::string> hosts_;  // of the workers
};

}  // namespace dtrain::launch
