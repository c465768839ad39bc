#include "role/scheduler/launcher_reports.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/thread.h"

namespace dtrain::role {

LauncherReports::LauncherReports(int input, std::function<void(const job::EndedProcess&)> on_ended, Log log)
    : input_(input), on_ended_(std::move(on_ended)), log_(std::move(log)), end_(::eventfd(0, EFD_CLOEXEC)) {
  DT_CHECK(end_.open(), "eventfd");
  ::fcntl(input_, F_SETFL, ::fcntl(input_, F_GETFL) | O_NONBLOCK);
  thread_ = std::thread([this] { read_all(); });
}

LauncherReports::~LauncherReports() {
  ::eventfd_write(end_.get(), 1);
  thread_.join();
}

void LauncherReports::read_all() {
  name_thread("launcher");
  std::array<pollfd, 2> watched = {{{input_, POLLIN, 0}, {end_.get(), POLLIN, 0}}};
  while (watched[1].revents == 0) {
    if (::poll(watched.data(), watched.size(), -1) < 0) continue;
    if (watched[0].revents != 0 && !read_some()) watched[0].fd = -1;  // poll() skips it from now on
  }
}

// Returns false at the end of the stream: the launcher is gone, and this process will soon end too.
bool LauncherReports::read_some() {
  std::array<char, 4096> bytes{};
  const ssize_t count = ::read(input_, bytes.data(), bytes.size());
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  rest_.append(bytes.data(), static_cast<size_t>(count));
  take_lines();
  return count > 0;
}

void LauncherReports::take_lines() {
  size_t begin = 0;
  for (size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n', begin)) {
    const Result<job::EndedProcess> ended = job::parse_ended_line(std::string_view(rest_).substr(begin, end - begin));
    if (ended) {
      on_ended_(*ended);
    } else {
      log_.warn("on the standard input: {}", ended.error().line());
    }
    begin = end + 1;
  }
  rest_.erase(0, begin);
}

}  // namespace dtrain::role
