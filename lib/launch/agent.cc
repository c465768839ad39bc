#include "launch/agent.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <memory>

#include "base/poll_until.h"
#include "launch/job.h"
#include "launch/local_host.h"
#include "launch/message.h"
#include "proc/signal_queue.h"

namespace dtrain::launch {
namespace {

// Maximum number of waiting bytes; beyond it, processes block when they print, as with a slow terminal.
constexpr size_t kOutboxMax = 4 << 20;

class Agent {
 public:
  explicit Agent(const AgentOptions& options) : options_(options) {}
  Result<> run();

 private:
  void wait_for_events();
  void read_requests();
  Result<> handle(const std::vector<std::string>& words);
  Result<> open(const std::vector<std::string>& words);
  Result<> start(const std::vector<std::string>& words);
  void tell_events();
  void tell(const std::vector<std::string>& words) { outbox_ += to_message(words); }
  void tell_failure(const Error& error);
  void flush();
  void on_deadline();
  void launcher_gone();
  [[nodiscard]] bool busy() const { return host_ != nullptr && host_->running(); }

  const AgentOptions& options_;
  proc::SignalQueue signals_;
  std::unique_ptr<LocalHost> host_;  // the host whose processes the agent runs; null until the launcher has sent `open`
  std::chrono::milliseconds kill_after_{0};
  proc::LineSplitter requests_{kMessageMax};
  std::string outbox_;
  bool ending_ = false;  // whether the launcher is gone
  bool killed_ = false;
  bool over_ = false;
  Clock::time_point deadline_ = Clock::now() + options_.silence_max;
};

Result<> Agent::run() {
  for (const int fd : {options_.in, options_.out}) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  tell({kGreeting, std::to_string(kAgentProtocol), options_.build_id});
  while (!over_) {
    flush();
    wait_for_events();
    for (const int signal : signals_.take()) {
      if (signal != SIGCHLD) launcher_gone();
    }
    if (!ending_) read_requests();
    tell_events();
    if (ending_ && !busy()) break;
    if (Clock::now() >= deadline_) on_deadline();
  }
  flush();
  return {};
}

void Agent::wait_for_events() {
  std::vector<pollfd> watched{{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
  if (!ending_) watched.push_back({.fd = options_.in, .events = POLLIN, .revents = 0});
  if (!ending_ && !outbox_.empty()) watched.push_back({.fd = options_.out, .events = POLLOUT, .revents = 0});
  if (host_ != nullptr && outbox_.size() < kOutboxMax) host_->watch(watched);
  poll_until(watched, deadline_);
}

void Agent::read_requests() {
  std::array<char, 1 << 16> buffer;
  ssize_t got = 0;
  const auto sink = [&](const std::string& line) {
    const Result<> handled = parse_message(line).and_then([&](const auto& words) { return handle(words); });
    if (!handled) tell_failure(handled.error());
  };
  while (!ending_ && (got = ::read(options_.in, buffer.data(), buffer.size())) > 0) {
    deadline_ = Clock::now() + options_.silence_max;
    requests_.add({buffer.data(), static_cast<size_t>(got)}, sink);
  }
  if (got == 0) launcher_gone();
}

Result<> Agent::handle(const std::vector<std::string>& words) {
  const std::string kind = words.empty() ? "" : words[0];
  if (kind == "open" && words.size() == 4 && host_ == nullptr) return open(words);
  if (kind == "start" && words.size() >= 5 && host_ != nullptr) return start(words);
  if (kind == "signal" && words.size() == 2 && host_ != nullptr) {
    host_->signal(static_cast<int>(number_of(words[1])));
  } else if (kind == "kill" && host_ != nullptr) {
    host_->kill();
  } else if (kind == "stop-time" && words.size() == 2 && host_ != nullptr) {
    kill_after_ = std::chrono::milliseconds(number_of(words[1]));
    host_->set_stop_time(kill_after_);
  } else if (kind != "alive") {
    return fail(Code::kInternal, "the launcher sent an unknown request, '{}'", kind);
  }
  return {};
}

Result<> Agent::open(const std::vector<std::string>& words) {
  kill_after_ = std::chrono::milliseconds(number_of(words[2]));
  DT_TRY(host_, LocalHost::create({words[1], options_.record_root, kill_after_}));
  tell({"opened", std::filesystem::exists(words[3]) ? "1" : "0"});
  return {};
}

Result<> Agent::start(const std::vector<std::string>& words) {
  Command command{.role = words[2], .rank = static_cast<int>(number_of(words[3]))};
  const auto arguments = words.begin() + 5;
  const int64_t count = number_of(words[4]);
  if (count < 1 || count > words.end() - arguments)
    return fail(Code::kInternal, "the launcher sent a command without arguments");
  command.arguments.assign(arguments, arguments + count);
  command.environment.assign(arguments + count, words.end());
  return host_->start(static_cast<size_t>(number_of(words[1])), command);
}

void Agent::tell_events() {
  if (host_ == nullptr) return;
  std::vector<HostEvent> events;
  if (outbox_.size() < kOutboxMax) host_->take(events);
  for (const HostEvent& event : events) {
    if (const proc::OutputLine* line = std::get_if<proc::OutputLine>(&event)) {
      tell({line->is_stdout ? "out" : "err", std::to_string(line->process), line->text});
    } else if (const proc::ProcessEnd* end = std::get_if<proc::ProcessEnd>(&event)) {
      tell({"end", std::to_string(end->process), std::to_string(end->status), std::to_string(end->peak_rss_bytes)});
    }
  }
}

void Agent::tell_failure(const Error& error) {
  std::string text = error.message;
  for (const std::string& context : error.context) text += ", while " + context;
  tell({"failed", std::to_string(static_cast<int>(error.code)), text});
  flush();
  launcher_gone();
}

void Agent::flush() {
  while (!outbox_.empty() && !over_) {
    const ssize_t put = ::write(options_.out, outbox_.data(), outbox_.size());
    if (put < 0 && errno == EAGAIN) {
      if (ending_) outbox_.clear();  // the launcher is gone and no longer reads, so the bytes are dropped
      return;
    }
    if (put <= 0) {
      outbox_.clear();
      return launcher_gone();
    }
    outbox_.erase(0, static_cast<size_t>(put));
  }
}

void Agent::on_deadline() {
  if (!ending_) return launcher_gone();
  over_ = killed_;  // a process stuck in the kernel can survive SIGKILL
  if (killed_) return;
  killed_ = true;
  host_->kill();
  deadline_ = Clock::now() + kReapAfterKill;
}

void Agent::launcher_gone() {
  if (ending_) return;
  ending_ = true;
  deadline_ = Clock::now() + kill_after_;
  if (host_ != nullptr) host_->signal(SIGTERM);
}

}  // namespace

Result<> run_agent(const AgentOptions& options) {
  return Agent(options).run();
}

}  // namespace dtrain::launch
