// Processes on another host. An agent there (agent.h) starts and watches them; a link (agent_link.h) carries the
// requests and the answers. All processes of a host share one connection, because sshd refuses many connections at the
// same time (MaxStartups).
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "launch/agent_link.h"
#include "launch/host.h"

namespace dtrain::launch {

struct RemoteHostOptions {
  std::string name;                      // name of the host, for messages
  std::string job;                       // the job's name in the agent's record; used as a file name
  std::chrono::milliseconds kill_after;  // time between TERM and KILL after the connection has broken
  std::chrono::milliseconds greet;       // time limit for the agent's greeting
  std::string mark;  // a file in the launcher's run directory; if it exists there too, the host shares that directory
  std::string build_id;  // build of this executable
  bool allow_mixed_builds = false;
};

class RemoteHost : public Host {
 public:
  // `link` begins to connect. Failures are reported as HostLost events: Code::kStartup with the link's reason, or
  // because the executable or the directory is missing; kDenied for another build.
  RemoteHost(RemoteHostOptions options, std::unique_ptr<AgentLink> link);

  [[nodiscard]] std::string_view name() const override { return options_.name; }
  Result<> start(size_t process, const Command& command) override;
  void signal(int number) override;
  void kill() override;
  void set_stop_time(std::chrono::milliseconds time) override;
  void close() override;
  void watch(std::vector<pollfd>& watched) const override;
  [[nodiscard]] std::optional<Clock::time_point> wakes_at() const override;
  void take(std::vector<HostEvent>& events) override;
  [[nodiscard]] bool shares_run_dir() const override { return shares_; }

 private:
  enum class State {
    kConnecting,  // until the agent's greeting; nothing has been started
    kOpen,
    kOver,
  };

  void send(const std::vector<std::string>& words);
  void read(std::vector<HostEvent>& events);
  void on_time(std::vector<HostEvent>& events);
  void on_words(const std::string& line, std::vector<HostEvent>& events);
  void on_message(const std::string& line, std::vector<HostEvent>& events);
  Result<> handle(const std::vector<std::string>& words, std::vector<HostEvent>& events);
  Result<> greeted(const std::vector<std::string>& words);
  void give_up();
  void lose(Error error, std::vector<HostEvent>& events);
  [[nodiscard]] Error why_it_ended(const std::string& reason) const;
  [[nodiscard]] std::string words() const;

  RemoteHostOptions options_;
  std::unique_ptr<AgentLink> link_;
  State state_ = State::kConnecting;
  bool has_begun_ = false;           // the link has begun to connect
  Clock::time_point wake_;           // the limit for the greeting; afterwards, the time of the next `alive`
  std::string held_;                 // requests that must wait for the greeting
  std::vector<size_t> waiting_;      // the processes that the requests in held_ start
  std::vector<size_t> never_began_;  // processes that were requested and then stopped before the agent's greeting
  std::deque<std::string> last_words_;
  bool shares_ = false;
};

}  // namespace dtrain::launch
