#include "launch/remote_host.h"

#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/poll_until.h"
#include "launch/agent.h"
#include "launch/message.h"

namespace dtrain::launch {
namespace {

constexpr auto kGoodbyeTime = std::chrono::seconds(3);
constexpr size_t kWordsKept = 5;
constexpr int kSshFailed = 255;

// Parses the code that an agent sent, which may be of another build.
Code code_of(const std::string& word) {
  const int64_t code = number_of(word);
  const bool known = code >= 0 && code <= static_cast<int64_t>(Code::kUnavailable);
  return known ? static_cast<Code>(code) : Code::kInternal;
}

}  // namespace

Result<std::unique_ptr<RemoteHost>> RemoteHost::create(RemoteHostOptions options) {
  const Command command{.arguments = options.machine.ssh};
  DT_TRY(Process ssh, start_with_input(command), "reaching {}", options.machine.name);
  return std::unique_ptr<RemoteHost>(new RemoteHost(std::move(options), std::move(ssh)));
}

RemoteHost::RemoteHost(RemoteHostOptions options, Process ssh)
    : options_(std::move(options)),
      ssh_(std::move(ssh)),
      out_(kMessageMax),
      wake_(Clock::now() + options_.greet),
      outbox_(starter_script(options_.machine)) {}

RemoteHost::~RemoteHost() {
  close();
  // The agent's end of the stream closes when all its processes have ended.
  pollfd watched{.fd = ssh_.out.get(), .events = POLLIN, .revents = 0};
  std::array<char, 4096> rest;
  const auto deadline = Clock::now() + kGoodbyeTime;
  while (ssh_runs_ && ssh_.out.open() && Clock::now() < deadline) {
    if (poll_until({&watched, 1}, deadline) <= 0) continue;
    if (::read(ssh_.out.get(), rest.data(), rest.size()) == 0) break;
  }
  if (!ssh_runs_) return;
  ::kill(ssh_.pid, SIGTERM);
  while (::waitpid(ssh_.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<> RemoteHost::start(size_t process, const Command& command) {
  std::vector<std::string> words = {"start", std::to_string(process), command.role, std::to_string(command.rank),
                                    std::to_string(command.arguments.size())};
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  words.insert(words.end(), command.environment.begin(), command.environment.end());
  if (state_ == State::kConnecting) waiting_.push_back(process);
  send(words);
  return {};
}

void RemoteHost::signal(int number) {
  if (state_ == State::kConnecting && number == SIGTERM) return give_up();
  send({"signal", std::to_string(number)});
}

void RemoteHost::kill() {
  if (state_ == State::kConnecting) return give_up();
  send({"kill"});
}

void RemoteHost::close() {
  if (state_ == State::kConnecting) give_up();
  ssh_.in.close();
}

// Nothing has been started there yet.
void RemoteHost::give_up() {
  state_ = State::kOver;
  never_began_ = std::move(waiting_);
  ::kill(ssh_.pid, SIGTERM);
}

void RemoteHost::watch(std::vector<pollfd>& watched) const {
  for (const UniqueFd* fd : {&ssh_.out, &ssh_.err}) {
    if (fd->open()) watched.push_back({.fd = fd->get(), .events = POLLIN, .revents = 0});
  }
  if (ssh_.in.open() && !outbox_.empty()) {
    watched.push_back({.fd = ssh_.in.get(), .events = POLLOUT, .revents = 0});
  }
}

std::optional<Clock::time_point> RemoteHost::wakes_at() const {
  if (state_ == State::kOver) return std::nullopt;
  return wake_;
}

void RemoteHost::take(std::vector<HostEvent>& events) {
  for (const size_t process : never_began_) events.emplace_back(ProcessEnd{process, SIGTERM, 0});
  never_began_.clear();
  read_words(events);  // read first, because ssh's messages explain why stdout ended
  read_messages(events);
  if (state_ != State::kOver && Clock::now() >= wake_) {
    if (state_ == State::kConnecting) {
      lose({Code::kStartup,
            fmt::format("{} did not answer within {} s{}", options_.machine.name,
                        std::chrono::duration<double>(options_.greet).count(), words()),
            {}},
           events);
    } else {
      send({"alive"});
      wake_ = Clock::now() + kAliveInterval;
    }
  }
  flush();
  int status = 0;
  if (!ssh_runs_ || ::waitpid(ssh_.pid, &status, WNOHANG) != ssh_.pid) return;
  ssh_runs_ = false;
  read_words(events);
  read_messages(events);
  if (state_ != State::kOver) lose(why_it_ended(status), events);
}

void RemoteHost::send(const std::vector<std::string>& words) {
  if (state_ == State::kOver) return;
  (state_ == State::kConnecting ? held_ : outbox_) += to_message(words);
  flush();
}

// What ssh does not accept now stays in the outbox until POLLOUT. A write error is noticed when ssh ends.
void RemoteHost::flush() {
  while (!outbox_.empty() && ssh_.in.open()) {
    const ssize_t put = ::write(ssh_.in.get(), outbox_.data(), outbox_.size());
    if (put <= 0) return;
    outbox_.erase(0, static_cast<size_t>(put));
  }
}

void RemoteHost::read_words(std::vector<HostEvent>& events) {
  read_lines(ssh_.err, err_, kReadsPerTurn, [&](const std::string& line) { on_words(line, events); });
}

void RemoteHost::read_messages(std::vector<HostEvent>& events) {
  read_lines(ssh_.out, out_, kReadsPerTurn, [&](const std::string& line) { on_message(line, events); });
}

void RemoteHost::on_words(const std::string& line, std::vector<HostEvent>& events) {
  last_words_.push_back(line);
  if (last_words_.size() > kWordsKept) last_words_.pop_front();
  events.emplace_back(HostMessage{line});
}

void RemoteHost::on_message(const std::string& line, std::vector<HostEvent>& events) {
  if (state_ == State::kOver) return;
  // Before the greeting, the user's shell may have printed something to stdout.
  if (state_ == State::kConnecting && !line.starts_with(kGreeting)) return on_words(line, events);
  Result<> handled = parse_message(line).and_then([&](const auto& words) { return handle(words, events); });
  if (!handled) lose(std::move(handled.error()).with("talking to " + options_.machine.name), events);
}

Result<> RemoteHost::handle(const std::vector<std::string>& words, std::vector<HostEvent>& events) {
  const std::string kind = words.empty() ? "" : words[0];
  const auto is = [&](const char* name, size_t size) { return kind == name && words.size() == size; };
  if (kind == kGreeting) return greeted(words);
  if (is("opened", 2)) {
    shares_ = words[1] == "1";
  } else if (is("out", 3) || is("err", 3)) {
    events.emplace_back(OutputLine{static_cast<size_t>(number_of(words[1])), words[2], kind == "out"});
  } else if (is("end", 4)) {
    events.emplace_back(ProcessEnd{static_cast<size_t>(number_of(words[1])), static_cast<int>(number_of(words[2])),
                                   std::strtoull(words[3].c_str(), nullptr, 10)});
  } else if (is("failed", 3)) {
    lose(Error{code_of(words[1]), fmt::format("on {}: {}", options_.machine.name, words[2]), {}}, events);
  } else {
    return fail(Code::kInternal, "the agent sent an unknown message, '{}'", kind);
  }
  return {};
}

Result<> RemoteHost::greeted(const std::vector<std::string>& words) {
  const std::string& build = words.size() > 2 ? words[2] : "";
  const bool speaks = words.size() == 3 && words[1] == std::to_string(kAgentProtocol);
  if (!speaks || (build != options_.build_id && !options_.allow_mixed_builds)) {
    return fail(Code::kDenied,
                "dtrain on {1} is of build {0}, but here it is of build {2}: copy this one to every host with "
                "--sync-dst-dir, or allow different builds with --allow-mixed-builds",
                build, options_.machine.name, options_.build_id);
  }
  state_ = State::kOpen;
  wake_ = Clock::now() + kAliveInterval;
  waiting_.clear();
  send({"open", options_.job, std::to_string(options_.kill_after.count()), options_.mark});
  outbox_ += std::exchange(held_, "");
  flush();
  return {};
}

void RemoteHost::lose(Error error, std::vector<HostEvent>& events) {
  state_ = State::kOver;
  ssh_.in.close();  // if the agent is still running, it then ends what it has started
  events.emplace_back(HostLost{std::move(error)});
}

std::string RemoteHost::words() const {
  return last_words_.empty() ? "" : fmt::format(": {}", fmt::join(last_words_, "; "));
}

Error RemoteHost::why_it_ended(int status) const {
  const Machine& machine = options_.machine;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : kSshFailed;
  if (state_ == State::kOpen) {
    return {Code::kPeerLost, fmt::format("the connection to {} broke{}", machine.name, words()), {}};
  }
  if (code == kNoExecutable) {
    return {Code::kStartup,
            fmt::format("{} has no executable '{}'; --sync-dst-dir copies the current directory to every host",
                        machine.name, machine.executable),
            {}};
  }
  if (code == kNoDirectory) {
    return {Code::kStartup,
            fmt::format("{} has no directory '{}', the current one here; --sync-dst-dir copies it to every host",
                        machine.name, machine.directory),
            {}};
  }
  const std::string how = code == kSshFailed ? "cannot be reached by ssh" : fmt::format("ended with code {}", code);
  return {Code::kStartup, fmt::format("{} {}{}", machine.name, how, words()), {}};
}

}  // namespace dtrain::launch
