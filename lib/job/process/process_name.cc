#include "job/process/process_name.h"

#include "job/flags/value.h"

namespace dtrain::job {

std::string to_text(const ProcessName& process) {
  return fmt::format("{}:{}", format_value(process.role), process.rank);
}

Result<ProcessName> parse_process_name(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos)
    return fail(Code::kUsage, "'{}' does not have the form ROLE:RANK, such as worker:3", text);
  ProcessName process;
  DT_TRY_VOID(parse_value(text.substr(0, colon), process.role));
  DT_TRY_VOID(parse_value(text.substr(colon + 1), process.rank));
  if (process.role == Role::kNone || process.rank < 0) {
    return fail(Code::kUsage, "'{}' must be a role (scheduler, server or worker) followed by a rank of at least 0",
                text);
  }
  return process;
}

}  // namespace dtrain::job
