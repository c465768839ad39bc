#include "launch/ssh_link.h"

#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "base/poll_until.h"
#include "launch/message.h"

namespace dtrain::launch {
namespace {

constexpr int kSshFailed = 255;

}  // namespace

Result<std::unique_ptr<AgentLink>> SshLink::create(OtherHost host, std::shared_ptr<ConnectGate> gate) {
  std::unique_ptr<SshLink> link(new SshLink(std::move(host), std::move(gate)));
  if (link->can_begin()) DT_TRY_VOID(link->begin());
  return link;
}

SshLink::SshLink(OtherHost host, std::shared_ptr<ConnectGate> gate)
    : host_(std::move(host)), gate_(std::move(gate)), out_(kMessageMax), outbox_(starter_script(host_)) {}

Result<> SshLink::begin() {
  DT_TRY(ssh_, proc::start_with_input({.arguments = host_.ssh}), "reaching {}", host_.name);
  enter(Phase::kConnecting);
  return {};
}

void SshLink::enter(Phase phase) {
  if (phase == Phase::kConnecting) gate_->enter();
  if (phase_ == Phase::kConnecting) gate_->leave();
  phase_ = phase;
}

SshLink::~SshLink() {
  close();
  if (phase_ == Phase::kConnecting) enter(Phase::kOver);
  if (ssh_.pid == 0) return;
  // Waits for the agent's end of the stream to close, which happens when all its processes have ended.
  pollfd watched{.fd = ssh_.out.get(), .events = POLLIN, .revents = 0};
  std::array<char, 4096> rest;
  while (!status_ && ssh_.out.open() && Clock::now() < *gone_by_) {
    if (poll_until({&watched, 1}, gone_by_) <= 0) continue;
    if (::read(ssh_.out.get(), rest.data(), rest.size()) == 0) break;
  }
  if (status_) return;
  ::kill(ssh_.pid, SIGTERM);
  while (::waitpid(ssh_.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void SshLink::send(std::string_view bytes) {
  outbox_ += bytes;
  flush();
}

void SshLink::close() {
  ssh_.in.close();
  if (!gone_by_) gone_by_ = Clock::now() + kGoodbyeTime;
}

void SshLink::give_up() {
  if (phase_ == Phase::kWaiting) enter(Phase::kOver);
  if (ssh_.pid > 0 && !status_) ::kill(ssh_.pid, SIGTERM);
}

// Sends the outbox. Data that ssh does not accept now stays in it until POLLOUT. A write error is noticed when ssh
// ends.
void SshLink::flush() {
  while (!outbox_.empty() && ssh_.in.open()) {
    const ssize_t put = ::write(ssh_.in.get(), outbox_.data(), outbox_.size());
    if (put <= 0) return;
    outbox_.erase(0, static_cast<size_t>(put));
  }
}

void SshLink::watch(std::vector<pollfd>& watched) const {
  for (const UniqueFd* fd : {&ssh_.out, &ssh_.err}) {
    if (fd->open()) watched.push_back({.fd = fd->get(), .events = POLLIN, .revents = 0});
  }
  if (ssh_.in.open() && !outbox_.empty()) {
    watched.push_back({.fd = ssh_.in.get(), .events = POLLOUT, .revents = 0});
  }
}

void SshLink::read(const proc::LineSplitter::Sink& message, const proc::LineSplitter::Sink& words) {
  if (can_begin()) {
    if (const Result<> begun = begin(); !begun) {
      why_not_begun_ = "cannot be reached: " + begun.error().message;
      enter(Phase::kOver);
    }
  }
  if (ssh_.pid == 0) return;
  flush();
  int status = 0;
  if (!status_ && ::waitpid(ssh_.pid, &status, WNOHANG) == ssh_.pid) status_ = status;
  proc::read_lines(ssh_.err, err_, proc::kReadsPerTurn,
                   words);  // read first, because ssh's messages explain why stdout ended
  const auto take = [&](const std::string& line) {
    if (phase_ == Phase::kConnecting) enter(Phase::kConnected);
    message(line);
  };
  proc::read_lines(ssh_.out, out_, proc::kReadsPerTurn, take);
  if (status_) enter(Phase::kOver);
}

std::optional<std::string> SshLink::ended() {
  if (!why_not_begun_.empty()) return why_not_begun_;
  if (!status_) return std::nullopt;
  return why(*status_);
}

std::string SshLink::why(int status) const {
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : kSshFailed;
  if (code == kNoExecutable) {
    return fmt::format("has no executable '{}'; --sync-dst-dir copies it to every host", host_.executable);
  }
  if (code == kNoDirectory) {
    return fmt::format(
        "has no directory '{}', which is the current directory on this host; --sync-dst-dir copies it to every host",
        host_.directory);
  }
  return code == kSshFailed ? "cannot be reached by ssh" : fmt::format("ended with code {}", code);
}

}  // namespace dtrain::launch
