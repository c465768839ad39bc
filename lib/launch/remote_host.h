// Processes on another machine. An agent there (agent.h) starts and watches them; ssh carries the requests and the
// answers. There is one connection per host for all its processes, because sshd refuses many at once (MaxStartups).
//
// The command line of ssh only names the host and a shell. The script that the shell runs, and all variables, tokens
// and commands of the job, are sent to its standard input.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "launch/host.h"
#include "launch/output.h"
#include "launch/process_group.h"
#include "launch/ssh.h"

namespace dtrain::launch {

struct RemoteHostOptions {
  Machine machine;
  std::string job;                       // the job's name in the agent's record; used as a file name
  std::chrono::milliseconds kill_after;  // between TERM and KILL after the connection has broken
  std::chrono::milliseconds greet;       // time limit for the agent's greeting
  std::string mark;  // a file in the launcher's run directory; if it exists there too, the host shares that directory
  std::string build_id;  // of this executable
  bool allow_mixed_builds = false;
};

class RemoteHost : public Host {
 public:
  // Begins to connect. Failures come as HostLost events: Code::kStartup with ssh's own message, or because the
  // executable or the directory is missing; kDenied for another build.
  static Result<std::unique_ptr<RemoteHost>> create(RemoteHostOptions options);
  ~RemoteHost() override;  // gives the agent a few seconds to end

  Result<> start(size_t process, const Command& command) override;
  void signal(int number) override;
  void kill() override;
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

  RemoteHost(RemoteHostOptions options, Process ssh);
  void send(const std::vector<std::string>& words);
  void flush();
  void read_words(std::vector<HostEvent>& events);
  void read_messages(std::vector<HostEvent>& events);
  void on_words(const std::string& line, std::vector<HostEvent>& events);
  void on_message(const std::string& line, std::vector<HostEvent>& events);
  Result<> handle(const std::vector<std::string>& words, std::vector<HostEvent>& events);
  Result<> greeted(const std::vector<std::string>& words);
  void give_up();
  void lose(Error error, std::vector<HostEvent>& events);
  [[nodiscard]] Error why_it_ended(int status) const;
  [[nodiscard]] std::string words() const;

  RemoteHostOptions options_;
  Process ssh_;
  bool ssh_runs_ = true;
  LineSplitter out_, err_;
  State state_ = State::kConnecting;
  Clock::time_point wake_;           // the limit for the greeting; afterwards, when to send the next `alive`
  std::string outbox_;               // bytes to write to ssh
  std::string held_;                 // requests that wait for the greeting
  std::vector<size_t> waiting_;      // the processes that these requests start
  std::vector<size_t> never_began_;  // requested, and stopped before the agent's greeting
  std::deque<std::string> last_words_;
  bool shares_ = false;
};

}  // namespace dtrain::launch
