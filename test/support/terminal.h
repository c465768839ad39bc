// A terminal for programs that print something else to people than to other programs.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

namespace dtrain::test {

class Terminal {
 public:
  Terminal() : screen_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)) {
    if (screen_ < 0 || ::grantpt(screen_) != 0 || ::unlockpt(screen_) != 0) throw std::runtime_error("no terminal");
    path_ = ::ptsname(screen_);
    keyboard_ = ::open(path_.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC);
  }
  ~Terminal() {
    ::close(keyboard_);
    ::close(screen_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // What a program opens: "/dev/pts/3".
  [[nodiscard]] const std::string& path() const { return path_; }

  // What programs have written so far, which may be at most 4 KiB; more would make them wait. Newlines are "\n".
  std::string take() {
    std::string text;
    char bytes[4096];
    for (ssize_t count = 0; (count = ::read(screen_, bytes, sizeof bytes)) > 0;)
      text.append(bytes, static_cast<size_t>(count));
    std::erase(text, '\r');
    return text;
  }

 private:
  int screen_, keyboard_ = -1;  // the other end stays open, so that what was written is kept
  std::string path_;
};

}  // namespace dtrain::test
