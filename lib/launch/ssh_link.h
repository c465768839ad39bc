// A connection to an agent through ssh, which starts it. The command line of ssh contains only the host and a shell.
// The script that the shell runs, and all variables, tokens and commands of the job, are sent to its standard input.
#pragma once

#include <memory>

#include "launch/agent_link.h"
#include "launch/connect_gate.h"
#include "launch/host.h"
#include "launch/ssh.h"
#include "proc/process_group.h"

namespace dtrain::launch {

class SshLink : public AgentLink {
 public:
  // Begins to connect if the gate has room, otherwise in a later read(). Code::kStartup if ssh cannot be executed.
  static Result<std::unique_ptr<AgentLink>> create(OtherHost host, std::shared_ptr<ConnectGate> gate);
  ~SshLink() override;

  void send(std::string_view bytes) override;
  void close() override;
  void give_up() override;
  [[nodiscard]] bool has_begun() const override { return phase_ != Phase::kWaiting; }
  [[nodiscard]] bool can_begin() const override { return phase_ == Phase::kWaiting && gate_->has_room(); }
  void watch(std::vector<pollfd>& watched) const override;
  void read(const proc::LineSplitter::Sink& message, const proc::LineSplitter::Sink& words) override;
  [[nodiscard]] std::string missing() const override { return "did not answer"; }
  std::optional<std::string> ended() override;

 private:
  enum class Phase {
    kWaiting,     // waits for room in the gate
    kConnecting,  // waits for the agent's first line
    kConnected,
    kOver,  // ssh has ended, or was not started
  };

  SshLink(OtherHost host, std::shared_ptr<ConnectGate> gate);
  Result<> begin();
  void enter(Phase phase);
  void flush();
  [[nodiscard]] std::string why(int status) const;

  OtherHost host_;
  std::shared_ptr<ConnectGate> gate_;
  Phase phase_ = Phase::kWaiting;
  std::string why_not_begun_;
  proc::Process ssh_;
  std::optional<int> status_;  // how ssh ended, as wait() reports it; nullopt: it has not ended
  proc::LineSplitter out_, err_;
  std::string outbox_;                        // bytes to write to ssh
  std::optional<Clock::time_point> gone_by_;  // the time by which ssh must have ended; set by close()
};

}  // namespace dtrain::launch
