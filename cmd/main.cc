// dtrain: runs the sub-command that the command line names, prints its error, and returns the exit code.
#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/printable.h"
#include "brief_waits.h"
#include "command.h"
#include "job/process/exit_code.h"
#include "signal_thread.h"

namespace {

// Each training step frees and allocates the same few megabytes again (inside oneDNN, gRPC, OpenCV). By default, glibc
// returns blocks above 128 KiB to the kernel immediately, and the top of the heap above 128 KiB soon, so each step
// would pay for page faults and zeroed pages. This setting keeps the memory instead: the process stays at its peak
// size, which the next step needs anyway.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

// A scheduler needs a descriptor for each connection, even for unauthenticated ones. The default limit is usually
// 1,024, but systems allow many times that. The new limit is at most 65,536, because some programs close every
// descriptor up to the limit, one by one, when they start.
void allow_many_descriptors() {
  constexpr rlim_t kEnough = 65'536;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kEnough) return;
  limit.rlim_cur = std::min(limit.rlim_max, kEnough);
  (void)setrlimit(RLIMIT_NOFILE, &limit);  // if this is not permitted, the old limit remains
}

// If a standard stream is closed, the next file or connection would get its number, and receive the output.
void open_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY);  // gets this number
  }
}
// Runs before the constructors of shared libraries: gRPC's already open descriptors, and all of them together take a
// fifth of a second, during which a process that trains may be asked to stop.
void prepare(int argc, char** argv, char** /*environment*/) {
  open_standard_streams();
  const bool trains = argc > 1 && (argv[1][0] == '-' || std::strcmp(argv[1], "train") == 0);
  if (trains) dtrain::cmd::block_early_signals();
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)(int, char**, char**) = prepare;

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (dtrain::cmd::computes(arguments)) dtrain::cmd::wait_briefly(argv);
  std::signal(SIGXFSZ, SIG_IGN);  // writing past the file size limit (ulimit -f) then fails with an error
  keep_freed_memory();
  allow_many_descriptors();
  int code = dtrain::job::kExitOk;
  const dtrain::Result<> result = dtrain::catching([&]() -> dtrain::Result<> {
    DT_TRY(code, dtrain::cmd::dispatch(arguments, environment));
    return {};
  });
  if (result) return code;
  // A requested stop is not an error.
  const dtrain::Error& error = result.error();
  const bool asked = error.code == dtrain::Code::kPreempted;
  std::fputs(((asked ? dtrain::printable(error.message) : error.text()) + "\n").c_str(), stderr);
  return dtrain::job::exit_code(error.code);
}
