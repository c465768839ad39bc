#include "job/process/scheduler_lines.h"

#include <fmt/core.h>

#include "base/printable.h"

namespace dtrain::job {
namespace {

constexpr std::string_view kEnded = "ended ";

}  // namespace

std::string ended_line(const EndedProcess& ended) {
  return fmt::format("{}{} {}", kEnded, to_text(ended.process), ended.how);
}

Result<EndedProcess> parse_ended_line(std::string_view line) {
  const size_t name_end = line.find(' ', kEnded.size());
  if (!line.starts_with(kEnded) || name_end == std::string_view::npos) {
    return fail(Code::kInternal, "'{}' is not a line of a launcher", printable(line));
  }
  DT_TRY(const ProcessName process, parse_process_name(line.substr(kEnded.size(), name_end - kEnded.size())));
  return EndedProcess{process, std::string(line.substr(name_end + 1))};
}

}  // namespace dtrain::job
