// Accepts connections from anyone who can reach a port, and waits for each peer to identify itself or to send its
// request. Until then a connection costs little more than a descriptor, for a bounded time, and the number of such
// connections is bounded.
#pragma once

#include <poll.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/unique_fd.h"

namespace dtrain::net {

// A connection whose peer has not yet sent all the data that is expected. All calls come from the acceptor's thread.
class Caller {
 public:
  using Clock = std::chrono::steady_clock;
  virtual ~Caller() = default;
  // Reads what has arrived, without waiting. Returns false if nothing more is expected: the connection has been handed
  // on, or must be closed.
  virtual bool waits() = 0;
  // The descriptor to poll, and the events to wait for.
  [[nodiscard]] virtual pollfd watched() const = 0;
  // The time at which the connection is closed if it is still waiting.
  [[nodiscard]] virtual Clock::time_point until() const = 0;
  // Called before the connection is closed because its time is over.
  virtual void on_timeout() {}
};

// Waits for the peer's first byte, and then hands the connection on together with this byte.
class SilentPeer : public Caller {
 public:
  using Take = std::function<void(UniqueFd)>;
  SilentPeer(UniqueFd connection, std::chrono::milliseconds silence, Take take)
      : connection_(std::move(connection)), until_(Clock::now() + silence), take_(std::move(take)) {}
  bool waits() override;
  [[nodiscard]] pollfd watched() const override { return {.fd = connection_.get(), .events = POLLIN, .revents = 0}; }
  [[nodiscard]] Clock::time_point until() const override { return until_; }

 private:
  UniqueFd connection_;
  const Clock::time_point until_;
  const Take take_;
};

struct AcceptorLimits {
  size_t waiting_max = 0;  // limit on waiting callers; if one more arrives, the one that has waited longest is closed
  // A caller that has waited for less than this is not closed in favor of another one. Meanwhile new connections wait
  // in the system's queue.
  std::chrono::milliseconds grace{};
  int descriptors_max = 0;  // limit on descriptors for the whole process, connections included

  // Limits derived from the number of descriptors that this process may have: an eighth for callers, and another eighth
  // (at most 256) for everything that is not a connection.
  static AcceptorLimits of_process();
};

// Does not wait and has no thread: its owner polls. If a new connection gets a descriptor that is not below
// `descriptors_max`, the caller that has waited longest is closed; if there is none, the new connection is refused, and
// `warn` is called, at most once a minute. The process must ignore SIGPIPE.
class Acceptor {
 public:
  using Clock = Caller::Clock;
  // Creates the caller for a new, non-blocking connection.
  using Meet = std::function<std::unique_ptr<Caller>(UniqueFd connection)>;
  using Warn = std::function<void(const std::string& text)>;

  Acceptor(std::vector<UniqueFd> listeners, AcceptorLimits limits, Warn warn, Meet meet);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // watch() appends the descriptors to poll. turn() must be called at wakes_at() at the latest; nullopt: no limit.
  void watch(std::vector<pollfd>& watched) const;
  [[nodiscard]] std::optional<Clock::time_point> wakes_at() const;
  // Handles what has happened. `polled`: the entries that watch() appended, after the poll. If it is empty, anything
  // may have happened.
  void turn(std::span<const pollfd> polled);

  // Takes back a connection that was served and on which more data are expected.
  void add(std::unique_ptr<Caller> caller);

 private:
  struct Waiting {
    std::unique_ptr<Caller> caller;
    Clock::time_point since;
  };
  [[nodiscard]] bool may_accept(Clock::time_point now) const;
  void check_waiting(std::span<const pollfd> polled);
  void accept_some(const UniqueFd& listener);
  void take(UniqueFd connection);
  bool close_oldest();
  void refuse(const char* why);

  const std::vector<UniqueFd> listeners_;
  const AcceptorLimits limits_;
  const Warn warn_;
  const Meet meet_;
  std::deque<Waiting> waiting_;               // the waiting callers, in the order in which they began to wait
  Clock::time_point resume_;                  // no connection is accepted before this time
  std::optional<Clock::time_point> refused_;  // when a refusal was last logged
};

// An acceptor with its own thread, which creates and calls the callers.
class AcceptorThread {
 public:
  AcceptorThread(std::vector<UniqueFd> listeners, AcceptorLimits limits, const Log& log, Acceptor::Meet meet);
  // Stops calling the callers, and closes the listeners and the waiting connections.
  ~AcceptorThread();
  AcceptorThread(const AcceptorThread&) = delete;
  AcceptorThread& operator=(const AcceptorThread&) = delete;

  // Takes back a connection, as Acceptor::add() does. Any thread may call it.
  void add(std::unique_ptr<Caller> caller);

 private:
  void serve();
  bool turn();

  const Log log_;
  const UniqueFd wake_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Caller>> added_ DT_GUARDED_BY(mutex_);
  bool stop_ DT_GUARDED_BY(mutex_) = false;
  Acceptor acceptor_;  // used by the thread only
  std::thread thread_;
};

}  // namespace dtrain::net
