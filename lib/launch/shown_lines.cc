#include "launch/shown_lines.h"

#include <fmt/core.h>

#include "base/log.h"
#include "base/log_prefix.h"
#include "job/process/people.h"

namespace dtrain::launch {

void ShownLines::started(const Command& command) {
  if (command.role != "worker") return;
  hosts_[static_cast<uint32_t>(command.rank)] = command.host;
  running_.insert(static_cast<uint32_t>(command.rank));
}

void ShownLines::lost(const Command& command) {
  if (command.role == "worker") running_.erase(static_cast<uint32_t>(command.rank));
}

// True if the ordinary lines of this process are shown.
bool ShownLines::speaks_for_job(const Command& command) const {
  // A part of a job may have no worker, or none with rank 0.
  if (command.role == "scheduler" || running_.empty()) return true;
  return command.role == "worker" && static_cast<uint32_t>(command.rank) == *running_.begin();
}

std::optional<ShownLine> ShownLines::shown(const Command& command, const std::string& line) const {
  const bool is_ordinary = !node_of_ordinary_line(line).empty();
  if (is_ordinary && !speaks_for_job(command)) return std::nullopt;
  const auto with_process = [&](std::string_view text) {
    return fmt::format("[{} {}] {}", command.name(), command.host, text);
  };
  if (!is_for_people_) return ShownLine{with_process(line)};
  const SplitLine split = split_log_line(line);
  if (!is_ordinary) return ShownLine{with_process(split.time ? split.text : line), Fit::kWords};
  const std::optional<Fit> fit = job::fit_for_people(split.text);
  return fit ? std::optional<ShownLine>({std::string(split.text), *fit}) : std::nullopt;
}

std::string ShownLines::host_of_worker(uint32_t rank) const {
  const auto found = hosts_.find(rank);
  return found == hosts_.end() ? "" : found->second;
}

}  // namespace dtrain::launch
