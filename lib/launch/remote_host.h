// Processes on another machine: an agent there (agent.h) starts them and watches over them, and ssh carries what it is
// asked and what it tells. One connection a host, however many processes: sshd refuses many at once (MaxStartups).
//
// ssh's command line names the host and a shell, nothing else. What the shell runs, and with it every variable, token
// and command of the job, goes through its standard input.
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
  std::string job;                       // in its record there; a file name
  std::chrono::milliseconds kill_after;  // between TERM and KILL when the connection has broken
  std::chrono::milliseconds greet;       // for the agent to be there
  std::string mark;                      // a file in the launcher's run directory: is it there too?
  std::string build_id;                  // of this executable
  bool allow_mixed_builds = false;
};

class RemoteHost : public Host {
 public:
  // Begins to connect. What can go wrong with that comes as Lost: Code::kStartup with ssh's own words, or because there
  // is no executable or directory; kDenied for another build.
  static Result<std::unique_ptr<RemoteHost>> create(RemoteHostOptions options);
  ~RemoteHost() override;  // gives the agent a few seconds to say goodbye

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
    kConnecting,  // until the agent has greeted: nothing has been started
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
  Clock::time_point wake_;           // for the greeting at last; then to show that the launcher is there
  std::string outbox_;               // on its way to ssh
  std::string held_;                 // requests that wait for the greeting
  std::vector<size_t> waiting_;      // processes among them
  std::vector<size_t> never_began_;  // asked for, and stopped before the agent was there
  std::deque<std::string> last_words_;
  bool shares_ = false;
};

}  // namespace dtrain::launch
