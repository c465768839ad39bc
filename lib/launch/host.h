// The interface to a host on which processes of a job run: this host (local_host.h), or another one, where an agent
// starts them (remote_host.h). The supervisor uses only this interface.
//
// The caller gives each process a number that identifies it. All calls come from one thread, and none blocks.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "launch/command.h"
#include "proc/children.h"

namespace dtrain::launch {

using Clock = proc::Clock;

// The time within which a closed host must report that all its processes have ended.
inline constexpr auto kGoodbyeTime = std::chrono::seconds(3);

// A message of the host itself, such as a login banner or an error message of ssh or mpirun.
struct HostMessage {
  std::string text;
};
// The host is lost: no more events come from it. Its processes have ended or will end without the launcher.
struct HostLost {
  Error error;
};
using HostEvent = std::variant<proc::OutputLine, proc::ProcessEnd, HostMessage, HostLost>;

class Host {
 public:
  Host() = default;
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  virtual ~Host() = default;  // ends all processes that still run

  [[nodiscard]] virtual std::string_view name() const = 0;  // the host's name, for messages

  // Code::kStartup if it is known immediately that the command cannot be executed; if that becomes known later, a
  // HostLost event follows.
  virtual Result<> start(size_t process, const Command& command) = 0;
  // Appends to the stdin of a process with Program::takes_more_input: the scheduler, which always runs on the
  // launcher's own host. Other hosts have no such process.
  virtual void send(size_t process, std::string_view text) {
    DT_CHECK(false, "process {} on {} takes no input: '{}'", process, name(), text);
  }
  virtual void signal(int number) = 0;  // sends the signal to all processes of this host
  virtual void kill() = 0;              // sends SIGKILL to all processes of this host
  // Sets the time between TERM and KILL for this host's processes in case the launcher or the host's agent dies.
  virtual void set_stop_time(std::chrono::milliseconds time) = 0;
  // Records the address and the token of the job's scheduler; called only on the launcher's own host.
  virtual void record_scheduler(const std::string& address, const std::string& /*token*/) {
    DT_CHECK(false, "{} has no record of the scheduler at {}", name(), address);
  }
  // Closes the host. Afterwards only the destructor may be called. Closing several hosts before destroying them lets
  // them end at the same time.
  virtual void close() = 0;

  // Appends the descriptors to poll. take() must be called when one of them is ready, at wakes_at(), after any call of
  // signal(), kill() or close(), when a child of this process has ended, and after another host's has_news().
  virtual void watch(std::vector<pollfd>& watched) const = 0;
  [[nodiscard]] virtual std::optional<Clock::time_point> wakes_at() const = 0;
  // Appends the events that have happened since the last call.
  virtual void take(std::vector<HostEvent>& events) = 0;
  // True if the last take() has changed what other hosts will report.
  [[nodiscard]] virtual bool has_news() const { return false; }

  // True if the host has the launcher's run directory, so that files that its processes write are visible here. Known
  // once a process runs.
  [[nodiscard]] virtual bool shares_run_dir() const = 0;
};

}  // namespace dtrain::launch
