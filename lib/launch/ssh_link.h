// A connection to an agent through ssh, which starts it. The command line of ssh only names the host and a shell. The
// script that the shell runs, and all variables, tokens and commands of the job, are sent to its standard input.
#pragma once

#include <memory>

#include "launch/agent_link.h"
#include "launch/host.h"
#include "launch/process_group.h"
#include "launch/ssh.h"

namespace dtrain::launch {

class SshLink : public AgentLink {
 public:
  // Begins to connect. Code::kStartup if ssh cannot be executed.
  static Result<std::unique_ptr<AgentLink>> create(Machine machine);
  ~SshLink() override;

  void send(std::string_view bytes) override;
  void close() override;
  void give_up() override;
  void watch(std::vector<pollfd>& watched) const override;
  void read(const LineSplitter::Sink& message, const LineSplitter::Sink& words) override;
  [[nodiscard]] std::string missing() const override { return "did not answer"; }
  std::optional<std::string> ended() override;

 private:
  SshLink(Machine machine, Process ssh);
  void flush();
  [[nodiscard]] std::string why(int status) const;

  Machine machine_;
  Process ssh_;
  std::optional<int> status_;  // once ssh has ended
  LineSplitter out_, err_;
  std::string outbox_;                        // bytes to write to ssh
  std::optional<Clock::time_point> gone_by_;  // set by close()
};

}  // namespace dtrain::launch
