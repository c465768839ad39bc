// Accepts the connections of a gRPC server. gRPC's own listener has no limits, and stops for good when accept fails, as
// it does in a process that has no descriptor left.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/unique_fd.h"

struct pollfd;

namespace dtrain::net {

struct AcceptorLimits {
  std::chrono::milliseconds silence{};  // a peer that has said nothing for so long is not waited for
  size_t silent_max = 0;                // connections at once whose peers have said nothing
  int descriptors_max = 0;              // of the process, connections included

  // For as many descriptors as this process may have: an eighth of them for connections that say nothing, another
  // eighth (at most 256) for all that is not a connection.
  static AcceptorLimits of_process(std::chrono::milliseconds silence);
};

// A thread that accepts. A connection is handed over once its peer has said something. Before that it costs one
// descriptor and no more; it is closed after `silence`, or when `silent_max` younger ones are silent, too. A new
// connection for which the system has no descriptor below `descriptors_max` takes the place of the oldest silent one;
// if there is none, it is refused, and the log says so at most once a minute.
class Acceptor {
 public:
  using Clock = std::chrono::steady_clock;

  // `hand_over` is called on the thread with a connection that does not block, and owns it from then on.
  Acceptor(std::vector<UniqueFd> listeners, AcceptorLimits limits, Log log, std::function<void(UniqueFd)> hand_over);
  // No call comes any more; the listeners and the silent connections are closed.
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

 private:
  struct SilentConnection {
    UniqueFd connection;
    Clock::time_point until;
  };
  enum class Received { kNothing, kData, kEnd };

  void serve();
  bool turn();
  void check_silent();
  void accept_some(const UniqueFd& listener);
  void take(UniqueFd connection);
  bool close_oldest();
  void refuse(const char* why);
  static Received peek(const UniqueFd& connection);

  const std::vector<UniqueFd> listeners_;
  const AcceptorLimits limits_;
  const Log log_;
  const std::function<void(UniqueFd)> hand_over_;
  const UniqueFd end_;
  std::vector<SilentConnection> silent_;  // the oldest first
  std::vector<pollfd> watched_;
  Clock::time_point resume_;                  // no connection is accepted before
  std::optional<Clock::time_point> refused_;  // when the log last said so
  std::thread thread_;
};

}  // namespace dtrain::net
