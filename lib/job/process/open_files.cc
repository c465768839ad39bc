#include "job/process/open_files.h"

#include <sys/resource.h>

namespace dtrain::job {

Result<> check_open_files(int64_t needed, const std::string& who) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  if (static_cast<rlim_t>(needed) <= limit.rlim_cur) return {};
  return fail(Code::kStartup,
              "{} of this job needs up to {} open files and connections, but this host allows a process only {}: raise "
              "the hard limit of open files to at least {} (ulimit -Hn, LimitNOFILE of systemd or limits.conf)",
              who, needed, limit.rlim_cur, needed);
}

}  // namespace dtrain::job
