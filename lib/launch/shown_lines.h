// Decides which lines of a job's processes appear on the launcher's screen, and in what form.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/live.h"
#include "launch/command.h"

namespace dtrain::launch {

struct ShownLine {
  std::string text;
  Fit fit = Fit::kAsIs;
};

// Shows all lines of the scheduler and of one worker, the first of those that are running here, and only the warnings,
// errors and crash messages of other processes. `is_for_people`: lines appear without time and node, and lines that are
// only for log files are left out (job/process/people.h).
class ShownLines {
 public:
  explicit ShownLines(bool is_for_people) : is_for_people_(is_for_people) {}

  void started(const Command& command);
  // The job continues without this process; from now on another worker's lines are shown.
  void lost(const Command& command);
  // The form in which a line of the command's process is shown; nullopt: it is not shown.
  [[nodiscard]] std::optional<ShownLine> shown(const Command& command, const std::string& line) const;
  // The host of a worker; empty if the worker was not started here.
  [[nodiscard]] std::string host_of_worker(uint32_t rank) const;

 private:
  [[nodiscard]] bool speaks_for_job(const Command& command) const;

  bool is_for_people_;
  std::map<uint32_t, std::string> hosts_;  // the workers' hosts, indexed by rank
  std::set<uint32_t> running_;             // the ranks of the workers that are not lost
};

}  // namespace dtrain::launch
