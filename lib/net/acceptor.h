// Accepts connections from anybody who can reach a port, and waits for each peer to say who it is or what it wants.
// Until then a connection costs a descriptor and little more, for a bounded time, and their number is bounded.
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

// A connection of a peer that has not yet said all that is waited for. All calls come from the acceptor's thread.
class Caller {
 public:
  using Clock = std::chrono::steady_clock;
  virtual ~Caller() = default;
  // Takes what has arrived, without waiting. False: there is nothing more to wait for; the connection has been handed
  // on, or is to be closed.
  virtual bool waits() = 0;
  // The descriptor, and what it waits for.
  [[nodiscard]] virtual pollfd watched() const = 0;
  // When it is closed if it still waits.
  [[nodiscard]] virtual Clock::time_point until() const = 0;
  // It is about to be closed because its time is over.
  virtual void on_timeout() {}
};

// Waits for the first byte, and then hands the connection on with it.
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
  size_t waiting_max = 0;  // callers at once; for one more, the one that has waited longest is closed
  // A caller is not closed for another one before it has waited so long. Meanwhile new ones wait in the system's queue.
  std::chrono::milliseconds grace{};
  int descriptors_max = 0;  // of the process, connections included

  // For as many descriptors as this process may have: an eighth of them for callers, another eighth (at most 256) for
  // all that is not a connection.
  static AcceptorLimits of_process();
};

// Does not wait and has no thread: its owner polls. A new connection for which the system has no descriptor below
// `descriptors_max` takes the place of the caller that has waited longest; if there is none, it is refused, and `warn`
// is told so at most once a minute. The process must ignore SIGPIPE.
class Acceptor {
 public:
  using Clock = Caller::Clock;
  // Makes the caller of a new connection, which does not block.
  using Meet = std::function<std::unique_ptr<Caller>(UniqueFd connection)>;
  using Warn = std::function<void(const std::string& text)>;

  Acceptor(std::vector<UniqueFd> listeners, AcceptorLimits limits, Warn warn, Meet meet);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Adds what to poll for, and says how long at most; nullopt: until something happens.
  void watch(std::vector<pollfd>& watched) const;
  [[nodiscard]] std::optional<Clock::time_point> wakes_at() const;
  // Serves what has happened. `polled`: what watch() added, after the poll; empty: anything may have happened.
  void turn(std::span<const pollfd> polled);

  // Takes back a connection that was served and on which more is to come.
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
  std::deque<Waiting> waiting_;               // the longest waiting first
  Clock::time_point resume_;                  // no connection is accepted before
  std::optional<Clock::time_point> refused_;  // when the log last said so
};

// An acceptor with a thread of its own, which makes and asks the callers.
class AcceptorThread {
 public:
  AcceptorThread(std::vector<UniqueFd> listeners, AcceptorLimits limits, const Log& log, Acceptor::Meet meet);
  // No caller is asked any more; the listeners and the waiting connections are closed.
  ~AcceptorThread();
  AcceptorThread(const AcceptorThread&) = delete;
  AcceptorThread& operator=(const AcceptorThread&) = delete;

  // As Acceptor::add(). Any thread may call it.
  void add(std::unique_ptr<Caller> caller);

 private:
  void serve();
  bool turn();

  const Log log_;
  const UniqueFd wake_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Caller>> added_ DT_GUARDED_BY(mutex_);
  bool stop_ DT_GUARDED_BY(mutex_) = false;
  Acceptor acceptor_;  // of the thread
  std::thread thread_;
};

}  // namespace dtrain::net
