#include "launch/shown_lines.h"

#include "base/log.h"

namespace dtrain::launch {

void ShownLines::started(const Command& command) {
  if (command.role == "worker") hosts_[static_cast<uint32_t>(command.rank)] = command.host;
}

bool ShownLines::shows(const Command& command, const std::string& line) const {
  if (all_logs_ || command.role == "scheduler" || node_of_ordinary_line(line).empty()) return true;
  // A part of a job may have no worker, or none with rank 0.
  if (hosts_.empty()) return true;
  return command.role == "worker" && static_cast<uint32_t>(command.rank) == hosts_.begin()->first;
}

std::string ShownLines::host_of_worker(uint32_t rank) const {
  const auto found = hosts_.find(rank);
  return found == hosts_.end() ? "" : found->second;
}

}  // namespace dtrain::launch
