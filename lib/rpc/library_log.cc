#include "rpc/library_log.h"

#include <grpc/support/log.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "net/refusal_log.h"

namespace dtrain::rpc {
namespace {

struct LimitedLog {
  explicit LimitedLog(Log l) : log(std::move(l)) {}
  const Log log;
  net::OncePerSecond limit;  // without a limit, a peer that keeps reconnecting could fill the log
};

// Global, because gRPC accepts only a function without a user argument. Never destroyed, because gRPC's threads may
// write until the process ends.
struct Current {
  Mutex mutex;
  std::shared_ptr<LimitedLog> log DT_GUARDED_BY(mutex);  // where gRPC's lines go; null: they are dropped
};
Current& current() {
  static auto* only = new Current;
  return *only;
}

void set_log(std::shared_ptr<LimitedLog> log) {
  const MutexLock lock(current().mutex);
  current().log = std::move(log);
}

void write(gpr_log_func_args* line) {
  std::shared_ptr<LimitedLog> to;
  {
    const MutexLock lock(current().mutex);
    to = current().log;
  }
  const std::optional<uint64_t> left_out = to ? to->limit.admit() : std::nullopt;
  if (!left_out) return;
  const std::string more = *left_out == 0 ? "" : fmt::format(" ({} more lines since the last one)", *left_out);
  to->log.to_files(fmt::format("gRPC: {} ({}:{}){}", line->message, line->file, line->line, more));
}

}  // namespace

LibraryLines::LibraryLines(Log log) {
  set_log(std::make_shared<LimitedLog>(std::move(log)));
  gpr_set_log_function(write);
}

LibraryLines::~LibraryLines() {
  set_log(nullptr);
}

}  // namespace dtrain::rpc
