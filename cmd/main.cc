// dtrain: runs the sub-command that the command line names, prints the error if it fails, and returns the exit code.
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

// Each training step allocates and frees the same few megabytes (inside oneDNN, gRPC, OpenCV). By default, glibc
// returns freed blocks of more than 128 KiB to the kernel immediately, and free memory of more than 128 KiB at the top
// of the heap soon, so each step would pay for page faults and zeroing of pages. With this setting, glibc keeps the
// memory: the process remains at its peak size, which the next step needs anyway.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

// Raises the limit on open descriptors. A scheduler needs a descriptor for each connection, also for unauthenticated
// ones. The limit is usually 1,024, although systems allow many times that. The new limit is at most 65,536, because
// some programs, when they start, close every possible descriptor up to the limit, one by one.
void allow_many_descriptors() {
  constexpr rlim_t kEnough = 65'536;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kEnough) return;
  limit.rlim_cur = std::min(limit.rlim_max, kEnough);
  (void)setrlimit(RLIMIT_NOFILE, &limit);  // if this is not permitted, the old limit remains in effect
}

// Opens /dev/null for standard streams that are closed. Otherwise the next file or connection would get the number of
// such a stream, and receive the output.
void open_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // open() returns this fd
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY);
  }
}
// Runs before the constructors of shared libraries. The constructors of gRPC already open descriptors, and all
// constructors together take a fifth of a second, in which a training process may receive a request to stop.
void prepare(int argc, char** argv, char** /*environment*/) {
  open_standard_streams();
  const auto is = [&](const char* command) { return std::strcmp(argv[1], command) == 0; };
  const bool trains = argc > 1 && (argv[1][0] == '-' || is("train") || is("join"));
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
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the file size limit (ulimit -f) then fails with an error
  keep_freed_memory();
  allow_many_descriptors();
  int code = dtrain::job::kExitOk;
  const dtrain::Result<> result = dtrain::catching([&]() -> dtrain::Result<> {
    DT_TRY(code, dtrain::cmd::dispatch(arguments, environment));
    return {};
  });
  if (result) return code;
  // A stop that was requested is not an error.
  const dtrain::Error& error = result.error();
  const bool asked = error.code == dtrain::Code::kPreempted;
  std::fputs(((asked ? dtrain::printable(error.message) : error.text()) + "\n").c_str(), stderr);
  return dtrain::job::exit_code(error.code);
}
