#include "launch/agent.h"

#include "launch/message.h"
#include "launch/supervised.h"
#include "proc/lines.h"

using namespace dtrain;
using namespace dtrain::launch;
using namespace dtrain::launch::test;

namespace {

// An agent in a process of its own, and the launcher's ends of its streams.
class StartedAgent {
 public:
  StartedAgent(const TempDir& dir, std::chrono::milliseconds silence_max) {
    std::array<int, 2> in{}, out{};
    REQUIRE(::pipe(in.data()) == 0);
    REQUIRE(::pipe(out.data()) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(in[1]);
      ::close(out[0]);
      for (const int fd : {in[0], out[1]}) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
      const auto end = run_agent({in[0], out[1], "build 1", dir.path("record"), silence_max});
      ::_exit(end ? 0 : 1);
    }
    ::close(in[0]);
    ::close(out[1]);
    in_ = UniqueFd(in[1]);
    out_ = UniqueFd(out[0]);
  }
  ~StartedAgent() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  StartedAgent(const StartedAgent&) = delete;
  StartedAgent& operator=(const StartedAgent&) = delete;

  void say(const std::vector<std::string>& words) const { write_out(in_.get(), to_message(words)); }
  // Returns the next message; empty if the agent has ended, or has sent nothing within the time limit.
  std::vector<std::string> hear() {
    const auto deadline = Clock::now() + kPatience;
    while (heard_.empty() && Clock::now() < deadline) {
      pollfd watched{.fd = out_.get(), .events = POLLIN, .revents = 0};
      ::poll(&watched, 1, 100);
      if (watched.revents == 0) continue;
      std::array<char, 4096> buffer;
      const ssize_t got = ::read(out_.get(), buffer.data(), buffer.size());
      if (got <= 0) return {};
      lines_.add({buffer.data(), static_cast<size_t>(got)}, [&](const std::string& line) { heard_.push_back(line); });
    }
    if (heard_.empty()) return {};
    const std::string line = heard_.front();
    heard_.pop_front();
    return parse_message(line).value();
  }

 private:
  pid_t pid_ = 0;
  UniqueFd in_, out_;
  proc::LineSplitter lines_;
  std::deque<std::string> heard_;
};

using Message = std::vector<std::string>;

std::vector<std::string> start_message(const TempDir& dir, const std::string& script) {
  const Command command = shell(dir, "worker", 0, script);
  Message words = {"start", "7", "worker", "0", std::to_string(command.arguments.size())};
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  words.emplace_back("A=b c");
  return words;
}

}  // namespace

TEST_CASE("an agent greets, starts the requested process and reports how it ended", "[launch][remote]") {
  const TempDir dir;
  StartedAgent agent(dir, kPatience);
  CHECK(agent.hear() == Message{"dtrain-agent", "2", "build 1"});
  agent.say({"open", "job", "1000", dir.path()});
  CHECK(agent.hear() == Message{"opened", "1"});
  agent.say(start_message(dir, "echo \"$A\"; exit 3"));
  CHECK(agent.hear() == Message{"out", "7", "b c"});
  const Message end = agent.hear();
  REQUIRE(end.size() == 4);
  CHECK(end[2] == std::to_string(3 << 8));
}

TEST_CASE("an agent ends its processes if its launcher falls silent", "[launch][remote]") {
  const TempDir dir;
  StartedAgent agent(dir, 3s);
  CHECK(agent.hear().size() == 3);
  agent.say({"open", "job", "100", ""});
  CHECK(agent.hear() == Message{"opened", "0"});
  agent.say(start_message(dir, Scripts::kStubborn));
  while (count_begun(dir) == 0) {  // a busy host may take longer than the silence to start it
    agent.say({"alive"});
    ::poll(nullptr, 0, 50);
  }
  CHECK(agent.hear() == Message{"out", "7", "stubborn"});
  CHECK(all_gone(dir));
}

TEST_CASE("an agent refuses an invalid request and exits", "[launch][remote]") {
  const TempDir dir;
  StartedAgent agent(dir, kPatience);
  CHECK(agent.hear().size() == 3);
  const Message request = GENERATE(Message{"dance"}, Message{"start", "1", "worker", "0", "1", "/bin/true"},
                                   Message{"open", "job"}, Message{"%"});
  agent.say(request);
  const Message failed = agent.hear();
  REQUIRE(failed.size() == 3);
  CHECK(failed[0] == "failed");
  CHECK(agent.hear().empty());
}
