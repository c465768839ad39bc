// The agents of a job when a single command starts them on all hosts: mpirun, srun, qsub. Each agent calls back to an
// address of this host (call_back.h). Its connection becomes the link of the agent's host, which a RemoteHost uses like
// a link through ssh.
//
// To the supervisor the group is one more host, on which nothing is started: it accepts the agents' connections, and
// forwards the command's output.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launch/agent_link.h"
#include "launch/call_back.h"
#include "launch/command.h"
#include "launch/host.h"
#include "net/acceptor.h"
#include "net/endpoint.h"
#include "net/listening_sockets.h"
#include "net/refusal_log.h"
#include "proc/process_group.h"

namespace dtrain::launch {

struct AgentGroupOptions {
  std::string tool;  // name for messages, such as "mpirun"
  // Returns the command that starts an agent on every host; the agents call back to `address` ("10.0.0.1:4000"). The
  // agents' key is added to the command's environment.
  std::function<Command(const std::string& address)> command;
  net::Listen listen;              // where the agents' connections are accepted
  std::string address;             // address of this host that the agents connect to
  std::vector<std::string> hosts;  // names, in the order of the links
  bool follows_job = false;     // the command follows a job of the cluster, so TERM must be sent to it to end that job
  bool only_announces = false;  // the command only publishes `address` and ends; it starts no agents
  // Number of hosts that the job uses, which are the first ones of `hosts`; agents on other hosts end immediately.
  size_t needed = 0;
};

class AgentGroup : public Host {
 public:
  // Listens, and starts the command. Code::kStartup: no such address or port, or the command cannot be executed.
  static Result<std::unique_ptr<AgentGroup>> create(AgentGroupOptions options);
  // Gives the command a few seconds, counted from close(), to end by itself.
  ~AgentGroup() override;

  // The link to the agent of a host. May be called once for each host. The link remains valid after the group is
  // destroyed.
  [[nodiscard]] std::unique_ptr<AgentLink> link(size_t host) const;

  [[nodiscard]] std::string_view name() const override { return options_.tool; }
  Result<> start(size_t process, const Command& command) override;
  void signal(int number) override;
  void kill() override;
  void set_stop_time(std::chrono::milliseconds /*time*/) override {}  // the agents receive it through their own links
  void close() override;
  void watch(std::vector<pollfd>& watched) const override;
  [[nodiscard]] std::optional<Clock::time_point> wakes_at() const override;
  void take(std::vector<HostEvent>& events) override;
  [[nodiscard]] bool has_news() const override { return has_news_; }
  [[nodiscard]] bool shares_run_dir() const override { return true; }

  // The state that the group and the link of a host share.
  struct Contact {
    UniqueFd connection;
    bool is_taken = false;                // whether the host's agent has connected
    bool is_given_up = false;             // whether the launcher no longer waits for the agent
    std::optional<std::string> why_none;  // set when no agent will connect: see AgentLink::ended
    std::string tool;
    size_t hosts = 0;                // number of hosts in the group
    std::shared_ptr<size_t> called;  // number of agents in the group that have connected so far
  };

 private:
  class NewAgent;

  AgentGroup(AgentGroupOptions options, net::ListeningSockets listening);
  Result<> run_command();
  void hear(UniqueFd connection, std::string_view line);
  Result<> admit(UniqueFd& connection, std::string_view line);
  void refuse(const UniqueFd& connection, std::string_view why);
  void read_words(std::vector<HostEvent>& events);
  void on_end_of_command(int status, std::vector<HostEvent>& events);
  [[nodiscard]] bool complete() const;

  AgentGroupOptions options_;
  uint16_t port_;
  std::optional<net::Acceptor> acceptor_;  // set while agents are expected
  uint64_t refused_ = 0;                   // number of refused connections so far
  net::OncePerSecond refusals_;            // limits the reports of further refusals
  std::vector<HostEvent> messages_;        // messages that the next take() appends to its events
  std::string key_;
  proc::Process command_;
  bool runs_ = false;
  proc::LineSplitter out_, err_;
  std::vector<std::string> first_lines_;
  std::vector<std::shared_ptr<Contact>> contacts_;  // the state of the link of each host
  std::vector<bool> taken_;                         // indexed by host: whether the host's agent has connected
  std::shared_ptr<size_t> called_ = std::make_shared<size_t>(0);
  // Whether the last take() has changed a contact whose link may have been read before, so that it must be read again.
  bool has_news_ = false;
  std::optional<Clock::time_point> gone_by_;  // the time by which the command must have ended; set by close()
};

}  // namespace dtrain::launch
