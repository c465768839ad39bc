#include "launch/agent_group.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/poll_until.h"
#include "job/process/token.h"
#include "launch/message.h"
#include "net/connecting.h"
#include "proc/run.h"

namespace dtrain::launch {
namespace {

constexpr auto kHelloTime = std::chrono::seconds(10);
constexpr size_t kHelloMax = 16 << 10;
// Number of refusals that are shown; afterwards at most one per second is shown.
constexpr uint64_t kRefusalsShown = 20;
// Number of the command's first lines that are kept, because they usually name the cause of a failure.
constexpr size_t kLinesKept = 20;
constexpr auto kEndOfJobTime = std::chrono::seconds(14);  // the time that a cluster may need to end a job
constexpr unsigned kUnacknowledgedMs = 15'000;

Result<net::ListeningSockets> listen_on(const net::Listen& listen) {
  auto opened = net::open_first_port(listen, kUnacknowledgedMs);
  if (opened) return std::move(*opened);
  return fail(Code::kStartup,
              "cannot listen for agents at {}: {} (--advertise or --interface sets the address, --port-range the port)",
              listen.host, std::strerror(opened.error()));
}

std::string peer_of(const UniqueFd& connection) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  std::array<char, NI_MAXHOST> text{};
  auto* address = reinterpret_cast<sockaddr*>(&peer);
  if (::getpeername(connection.get(), address, &size) != 0) return "an unknown address";
  ::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return text.data();
}

// The link of one host of a group.
class ContactLink : public AgentLink {
 public:
  explicit ContactLink(std::shared_ptr<AgentGroup::Contact> contact) : contact_(std::move(contact)) {}
  ~ContactLink() override {
    close();
    pollfd watched{.fd = contact_->connection.get(), .events = POLLIN, .revents = 0};
    std::array<char, 4096> rest;
    while (contact_->connection.open() && Clock::now() < *gone_by_) {
      if (poll_until({&watched, 1}, gone_by_) <= 0) continue;
      const ssize_t got = ::read(contact_->connection.get(), rest.data(), rest.size());
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) break;
    }
    contact_->connection.close();
  }

  void send(std::string_view bytes) override {
    outbox_ += bytes;
    flush();
  }
  void close() override {
    if (gone_by_) return;
    contact_->is_given_up = true;
    if (contact_->connection.open()) ::shutdown(contact_->connection.get(), SHUT_WR);
    gone_by_ = Clock::now() + kGoodbyeTime;
  }
  void give_up() override { contact_->is_given_up = true; }

  void watch(std::vector<pollfd>& watched) const override {
    if (!contact_->connection.open()) return;
    const short out = outbox_.empty() ? 0 : POLLOUT;
    watched.push_back({.fd = contact_->connection.get(), .events = static_cast<short>(POLLIN | out), .revents = 0});
  }
  void read(const proc::LineSplitter::Sink& message, const proc::LineSplitter::Sink& /*words*/) override {
    flush();
    proc::read_lines(contact_->connection, in_, proc::kReadsPerTurn, message);
  }
  [[nodiscard]] std::string missing() const override {
    return fmt::format("did not get an agent from {}, which has started {} of {},", contact_->tool, *contact_->called,
                       contact_->hosts);
  }
  std::optional<std::string> ended() override {
    if (contact_->connection.open()) return std::nullopt;
    if (contact_->is_taken) return "closed the connection";
    return contact_->why_none;
  }

 private:
  // Sends the outbox. A write error is not handled here, because the end of the connection reveals it.
  void flush() {
    while (!outbox_.empty() && contact_->connection.open() && !gone_by_) {
      const ssize_t put = ::send(contact_->connection.get(), outbox_.data(), outbox_.size(), MSG_NOSIGNAL);
      if (put <= 0) return;
      outbox_.erase(0, static_cast<size_t>(put));
    }
  }

  std::shared_ptr<AgentGroup::Contact> contact_;
  proc::LineSplitter in_{kMessageMax};
  std::string outbox_;
  std::optional<Clock::time_point> gone_by_;
};

}  // namespace

Result<std::unique_ptr<AgentGroup>> AgentGroup::create(AgentGroupOptions options) {
  DT_TRY(net::ListeningSockets listening, listen_on(options.listen));
  std::unique_ptr<AgentGroup> group(new AgentGroup(std::move(options), std::move(listening)));
  DT_TRY_VOID(group->run_command());
  return group;
}

// A connection that has not yet said which agent it belongs to.
class AgentGroup::NewAgent : public net::Caller {
 public:
  NewAgent(AgentGroup& group, UniqueFd connection) : group_(group), connection_(std::move(connection)) {
    net::set_watched(connection_);
  }

  bool waits() override {
    std::array<char, 4096> seen;
    while (line_.size() < kHelloMax) {
      const ssize_t got = ::recv(connection_.get(), seen.data(), seen.size(), MSG_PEEK | MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
      if (got <= 0) break;
      // Takes only the first line out of the socket's buffer. The bytes after it are left for the next reader.
      const std::string_view text(seen.data(), static_cast<size_t>(got));
      const size_t end = std::min(text.find('\n'), text.size());
      line_ += text.substr(0, end);
      const size_t taken = std::min(end + 1, text.size());
      if (::recv(connection_.get(), seen.data(), taken, MSG_DONTWAIT) != static_cast<ssize_t>(taken)) break;
      if (end == text.size()) continue;
      group_.hear(std::move(connection_), line_);
      return false;
    }
    on_timeout();
    return false;
  }
  [[nodiscard]] pollfd watched() const override { return {.fd = connection_.get(), .events = POLLIN, .revents = 0}; }
  [[nodiscard]] Clock::time_point until() const override { return until_; }
  void on_timeout() override { group_.refuse(connection_, "the first line of the connection is not that of an agent"); }

 private:
  AgentGroup& group_;
  UniqueFd connection_;
  std::string line_;
  const Clock::time_point until_ = Clock::now() + kHelloTime;
};

AgentGroup::AgentGroup(AgentGroupOptions options, net::ListeningSockets listening)
    : options_(std::move(options)), port_(listening.port), key_(job::make_token()) {
  acceptor_.emplace(
      std::move(listening.sockets), net::AcceptorLimits::of_process(),
      [this](const std::string& text) { messages_.emplace_back(HostMessage{text}); },
      [this](UniqueFd connection) { return std::make_unique<NewAgent>(*this, std::move(connection)); });
  taken_.resize(options_.hosts.size());
  for (size_t i = 0; i < options_.hosts.size(); i++) {
    contacts_.push_back(std::make_shared<Contact>());
    Contact& contact = *contacts_.back();
    contact.is_given_up = i >= options_.needed;
    contact.tool = options_.tool;
    contact.hosts = options_.hosts.size();
    contact.called = called_;
  }
}

Result<> AgentGroup::run_command() {
  Command command = options_.command(net::to_text({options_.address, port_}));
  command.environment.push_back(fmt::format("{}={}", kAgentKey, key_));
  DT_TRY(command_, proc::start_with_input(command.program()), "starting the agents with {}", options_.tool);
  command_.in.close();
  runs_ = true;
  return {};
}

AgentGroup::~AgentGroup() {
  close();
  while (runs_ && Clock::now() < *gone_by_) {
    std::vector<HostEvent> rest;
    std::vector<pollfd> watched;
    watch(watched);
    // Waits for the command's streams to close. They close when it ends, unless another process holds them open.
    poll_until(watched, std::min(*gone_by_, Clock::now() + std::chrono::milliseconds(100)));
    take(rest);
  }
  if (!runs_) return;
  ::kill(-command_.pid, SIGKILL);
  while (::waitpid(command_.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::unique_ptr<AgentLink> AgentGroup::link(size_t host) const {
  return std::make_unique<ContactLink>(contacts_.at(host));
}

Result<> AgentGroup::start(size_t /*process*/, const Command& command) {
  return fail(Code::kInternal, "{} cannot be started with {}, which only starts agents", command.name(), options_.tool);
}

// Stops the command, but only until all agents have connected; before that, training has not begun. Later the agents
// get signals through their connections.
void AgentGroup::signal(int number) {
  if (number == SIGTERM && runs_ && !complete()) ::kill(command_.pid, SIGTERM);
}

void AgentGroup::kill() {
  if (runs_ && !complete()) ::kill(command_.pid, SIGTERM);
}

void AgentGroup::close() {
  if (gone_by_) return;
  gone_by_ = Clock::now() + (options_.follows_job ? kEndOfJobTime : kGoodbyeTime);
  acceptor_.reset();
  if (runs_ && (options_.follows_job || !complete())) ::kill(command_.pid, SIGTERM);
}

bool AgentGroup::complete() const {
  return *called_ == contacts_.size();
}

void AgentGroup::watch(std::vector<pollfd>& watched) const {
  const auto add = [&](const UniqueFd& fd) {
    if (fd.open()) watched.push_back({.fd = fd.get(), .events = POLLIN, .revents = 0});
  };
  add(command_.out);
  add(command_.err);
  if (acceptor_) acceptor_->watch(watched);
}

std::optional<Clock::time_point> AgentGroup::wakes_at() const {
  if (has_news_) return Clock::now();
  return acceptor_ ? acceptor_->wakes_at() : std::nullopt;
}

void AgentGroup::take(std::vector<HostEvent>& events) {
  has_news_ = false;
  if (acceptor_) acceptor_->turn({});
  events.insert(events.end(), messages_.begin(), messages_.end());
  messages_.clear();
  int status = 0;
  const bool ended = runs_ && ::waitpid(command_.pid, &status, WNOHANG) == command_.pid;
  read_words(events);
  if (ended) on_end_of_command(status, events);
  if (complete()) acceptor_.reset();
}

void AgentGroup::hear(UniqueFd connection, std::string_view line) {
  if (const Result<> admitted = admit(connection, line); !admitted) refuse(connection, admitted.error().message);
}

void AgentGroup::refuse(const UniqueFd& connection, std::string_view why) {
  const std::optional<uint64_t> left_out = refused_++ < kRefusalsShown ? 0 : refusals_.admit();
  if (!left_out) return;
  messages_.emplace_back(HostMessage{
      fmt::format("refused a connection from {}: {}{}", peer_of(connection), why,
                  *left_out == 0 ? "" : fmt::format(" ({} more were refused since the last line)", *left_out))});
}

Result<> AgentGroup::admit(UniqueFd& connection, std::string_view line) {
  DT_TRY(const Hello hello, parse_hello(line));
  if (!job::same_token(hello.key, key_))
    return fail(Code::kDenied, "the caller does not know the key of this job's agents");
  const std::optional<size_t> place = place_of(hello, options_.hosts, taken_);
  if (!place)
    return fail(Code::kDenied, "all hosts of the job already have an agent, and {} is not one of these hosts",
                hello.host);
  Contact& contact = *contacts_[*place];
  contact.is_taken = taken_[*place] = true;
  ++*called_;
  has_news_ = true;
  if (!contact.is_given_up) contact.connection = std::move(connection);
  return {};
}

void AgentGroup::read_words(std::vector<HostEvent>& events) {
  const auto sink = [&](const std::string& bytes) {
    const std::string line = bytes.substr(0, bytes.find_last_not_of('\r') + 1);  // ssh ends its lines as on a terminal
    if (first_lines_.size() < kLinesKept) first_lines_.push_back(line);
    events.emplace_back(HostMessage{line});
  };
  proc::read_lines(command_.err, err_, proc::kReadsPerTurn, sink);
  // What a command prints while it follows a job is only passed on, because it does not explain a failure.
  const auto progress = [&](const std::string& line) { events.emplace_back(HostMessage{line}); };
  proc::read_lines(command_.out, out_, proc::kReadsPerTurn,
                   options_.follows_job ? proc::LineSplitter::Sink(progress) : sink);
}

void AgentGroup::on_end_of_command(int status, std::vector<HostEvent>& events) {
  runs_ = false;
  has_news_ = true;
  const std::string how = proc::how_it_ended(status);
  if (status == 0 && options_.only_announces) return;
  if (status != 0 && !gone_by_) events.emplace_back(HostMessage{fmt::format("{} {}", options_.tool, how)});
  for (const auto& contact : contacts_) {
    if (contact->is_taken) continue;
    contact->why_none = fmt::format("has no agent, because {} {}{}{}", options_.tool, how,
                                    first_lines_.empty() ? "" : ": ", proc::first_words(first_lines_));
  }
}

}  // namespace dtrain::launch
