// The connection between the launcher and one agent (agent.h): a stream of lines in each direction. ssh_link.h makes
// one for each host with ssh; with an AgentGroup (agent_group.h) one command starts all agents, and each calls back.
//
// All calls come from one thread, and none blocks except the destructor.
#pragma once

#include <poll.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proc/lines.h"

namespace dtrain::launch {

class AgentLink {
 public:
  AgentLink() = default;
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;
  // Gives the agent a few seconds, counted from close(), to end what it has started.
  virtual ~AgentLink() = default;

  // Bytes that cannot be sent now are kept until the connection takes them.
  virtual void send(std::string_view bytes) = 0;
  // Announces that nothing more will be sent. The agent then ends its processes.
  virtual void close() = 0;
  // Abandons an attempt to connect. Only before the agent's first line, while it has started nothing.
  virtual void give_up() = 0;

  // has_begun() is false while the link waits for other links that are connecting. can_begin() returns whether the next
  // read() will begin to connect.
  [[nodiscard]] virtual bool has_begun() const { return true; }
  [[nodiscard]] virtual bool can_begin() const { return false; }

  virtual void watch(std::vector<pollfd>& watched) const = 0;
  // Delivers the lines that have arrived. `message` receives lines of the agent, or of a shell before it; `words`
  // receives messages of the program that carries the connection.
  virtual void read(const proc::LineSplitter::Sink& message, const proc::LineSplitter::Sink& words) = 0;
  // Before the agent's first line: what has not happened yet, as the middle of a sentence, between the host's name and
  // "within 60 s".
  [[nodiscard]] virtual std::string missing() const = 0;
  // After the connection has ended: the reason, as the end of a sentence that begins with the host's name ("has no
  // executable '/a/dtrain'"). All lines have been delivered by then.
  virtual std::optional<std::string> ended() = 0;
};

}  // namespace dtrain::launch
