// Where processes of a job run: this machine (local_host.h), or another one at the end of an ssh (remote_host.h). The
// supervisor knows only this.
//
// A process is known by a number that the caller gives it. All calls are from one thread and none blocks.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "launch/command.h"

namespace dtrain::launch {

using Clock = std::chrono::steady_clock;

// A process printed a line. Whatever it printed comes before its End.
struct Line {
  size_t process = 0;
  std::string text = {};
  bool is_stdout = true;
};
struct End {
  size_t process = 0;
  int status = 0;  // as wait gives it
  uint64_t peak_rss_bytes = 0;
};
// The host itself has something to say: a banner, ssh's complaint.
struct Words {
  std::string text;
};
// Nothing more comes from the host; what ran there has ended or will, on its own.
struct Lost {
  Error error;
};
using HostEvent = std::variant<Line, End, Words, Lost>;

class Host {
 public:
  Host() = default;
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  virtual ~Host() = default;  // ends what still runs

  // Code::kStartup if it cannot be executed, where that shows at once; else the host is Lost.
  virtual Result<> start(size_t process, const Command& command) = 0;
  virtual void signal(int number) = 0;  // to all that it has started
  virtual void kill() = 0;              // KILL to all of them
  // No more calls but for the destructor: several hosts can so come to their end at the same time.
  virtual void close() = 0;

  // What to poll for, and by when to call take() in any case.
  virtual void watch(std::vector<pollfd>& watched) const = 0;
  [[nodiscard]] virtual std::optional<Clock::time_point> wakes_at() const = 0;
  // Appends what has happened since.
  virtual void take(std::vector<HostEvent>& events) = 0;

  // It has the launcher's run directory, so that what its processes write there is there. Known once something runs.
  [[nodiscard]] virtual bool shares_run_dir() const = 0;
};

}  // namespace dtrain::launch
