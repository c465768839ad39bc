// The agents of a job that one command starts on all its hosts: mpirun, srun, qsub. Each agent calls back to an address
// of this host (call_back.h) and is given to the link of its host, so that each host is served by a RemoteHost.
//
// To the supervisor the group is one more host, on which nothing is started: it accepts the agents' connections, and
// passes on what the command says.
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
  std::string tool;  // "mpirun": for messages
  // The command that starts an agent on every host, which calls back at `address` ("10.0.0.1:4000"). Its environment
  // gets the agents' key.
  std::function<Command(const std::string& address)> command;
  net::Listen listen;              // where the agents' connections are accepted
  std::string address;             // of this host, for the agents
  std::vector<std::string> hosts;  // names, in the order of the links
  bool follows_job = false;        // see AgentStarter
  bool only_announces = false;     // see AgentStarter
  size_t needed = 0;               // the job uses this many of them, the first ones; agents of the others end at once
};

class AgentGroup : public Host {
 public:
  // Listens, and starts the command. Code::kStartup: no such address or port, or the command cannot be executed.
  static Result<std::unique_ptr<AgentGroup>> create(AgentGroupOptions options);
  // Gives the command a few seconds, counted from close(), to end by itself.
  ~AgentGroup() override;

  // The link to the agent of a host, to be asked for once. It stays valid without the group.
  [[nodiscard]] std::unique_ptr<AgentLink> link(size_t host) const;

  [[nodiscard]] std::string_view name() const override { return options_.tool; }
  Result<> start(size_t process, const Command& command) override;
  void signal(int number) override;
  void kill() override;
  void set_stop_time(std::chrono::milliseconds /*time*/) override {}  // the hosts of its agents have been told
  void close() override;
  void watch(std::vector<pollfd>& watched) const override;
  [[nodiscard]] std::optional<Clock::time_point> wakes_at() const override;
  void take(std::vector<HostEvent>& events) override;
  [[nodiscard]] bool has_news() const override { return has_news_; }
  [[nodiscard]] bool shares_run_dir() const override { return true; }

  // What the group and the link of a host share.
  struct Contact {
    UniqueFd connection;
    bool is_taken = false;                // an agent has called
    bool is_given_up = false;             // nobody waits for the agent any more
    std::optional<std::string> why_none;  // set when no agent will call: see AgentLink::ended
    std::string tool;
    size_t hosts = 0;                // of the group
    std::shared_ptr<size_t> called;  // agents of the group that have called so far
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
  std::optional<net::Acceptor> acceptor_;  // while agents are waited for
  uint64_t refused_ = 0;                   // strangers so far
  net::OncePerSecond refusals_;            // of the further ones
  std::vector<HostEvent> messages_;        // for the next take()
  std::string key_;
  proc::Process command_;
  bool runs_ = false;
  proc::LineSplitter out_, err_;
  std::vector<std::string> first_lines_;
  std::vector<std::shared_ptr<Contact>> contacts_;  // by host
  std::vector<bool> taken_;                         // by host: whether an agent has called
  std::shared_ptr<size_t> called_ = std::make_shared<size_t>(0);
  // The last take() has changed a contact, which its link, asked before, has not seen.
  bool has_news_ = false;
  std::optional<Clock::time_point> gone_by_;  // set by close()
};

}  // namespace dtrain::launch
