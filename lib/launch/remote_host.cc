#include "launch/remote_host.h"

#include <fmt/ranges.h>
#include <csignal>
#include <utility>

#include "launch/agent.h"
#include "launch/message.h"

namespace dtrain::launch {
namespace {

constexpr size_t kWordsKept = 5;

// Parses the code that an agent sent, which may be of another build.
Code code_of(const std::string& word) {
  const int64_t code = number_of(word);
  const bool known = code >= 0 && code <= static_cast<int64_t>(Code::kUnavailable);
  return known ? static_cast<Code>(code) : Code::kInternal;
}

// When to send the next `alive`. It is the same moment for all hosts, so that hundreds of them wake the launcher only
// once.
Clock::time_point next_alive() {
  const Clock::duration now = Clock::now().time_since_epoch();
  return Clock::time_point((now / kAliveInterval + 1) * Clock::duration(kAliveInterval));
}

}  // namespace

RemoteHost::RemoteHost(RemoteHostOptions options, std::unique_ptr<AgentLink> link)
    : options_(std::move(options)),
      link_(std::move(link)),
      has_begun_(link_->has_begun()),
      wake_(Clock::now() + options_.greet) {}

Result<> RemoteHost::start(size_t process, const Command& command) {
  if (state_ == State::kOver) return fail(Code::kPeerLost, "the connection to {} is broken", options_.name);
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

void RemoteHost::set_stop_time(std::chrono::milliseconds time) {
  options_.kill_after = time;  // sent with `open` if the agent has not greeted yet
  if (state_ == State::kOpen) send({"stop-time", std::to_string(time.count())});
}

void RemoteHost::close() {
  if (state_ == State::kConnecting) give_up();
  link_->close();
}

// Gives up a host that has not greeted yet, so that nothing has been started there.
void RemoteHost::give_up() {
  state_ = State::kOver;
  never_began_ = std::move(waiting_);
  link_->give_up();
}

void RemoteHost::watch(std::vector<pollfd>& watched) const {
  link_->watch(watched);
}

std::optional<Clock::time_point> RemoteHost::wakes_at() const {
  if (state_ == State::kOver) return std::nullopt;
  if (has_begun_) return wake_;
  return link_->can_begin() ? std::optional(Clock::now()) : std::nullopt;
}

void RemoteHost::take(std::vector<HostEvent>& events) {
  for (const size_t process : never_began_) events.emplace_back(proc::ProcessEnd{process, SIGTERM, 0});
  never_began_.clear();
  read(events);
  if (!has_begun_ && link_->has_begun()) {
    has_begun_ = true;
    wake_ = Clock::now() + options_.greet;
  }
  const std::optional<std::string> ended = link_->ended();
  if (state_ != State::kOver && ended) lose(why_it_ended(*ended), events);
  if (state_ != State::kOver && has_begun_ && Clock::now() >= wake_) on_time(events);
}

void RemoteHost::on_time(std::vector<HostEvent>& events) {
  if (state_ == State::kConnecting) {
    return lose({Code::kStartup,
                 fmt::format("{} {} within {} s{}", options_.name, link_->missing(),
                             std::chrono::duration<double>(options_.greet).count(), words()),
                 {}},
                events);
  }
  send({"alive"});
  wake_ = next_alive();
}

void RemoteHost::send(const std::vector<std::string>& words) {
  if (state_ == State::kOver) return;
  const std::string message = to_message(words);
  if (state_ == State::kConnecting) {
    held_ += message;
  } else {
    link_->send(message);
  }
}

void RemoteHost::read(std::vector<HostEvent>& events) {
  link_->read([&](const std::string& line) { on_message(line, events); },
              [&](const std::string& line) { on_words(line, events); });
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
  if (!handled) lose(std::move(handled.error()).with("talking to " + options_.name), events);
}

Result<> RemoteHost::handle(const std::vector<std::string>& words, std::vector<HostEvent>& events) {
  const std::string kind = words.empty() ? "" : words[0];
  const auto is = [&](const char* name, size_t size) { return kind == name && words.size() == size; };
  if (kind == kGreeting) return greeted(words);
  if (is("opened", 2)) {
    shares_ = words[1] == "1";
  } else if (is("out", 3) || is("err", 3)) {
    events.emplace_back(proc::OutputLine{static_cast<size_t>(number_of(words[1])), words[2], kind == "out"});
  } else if (is("end", 4)) {
    events.emplace_back(proc::ProcessEnd{static_cast<size_t>(number_of(words[1])),
                                         static_cast<int>(number_of(words[2])),
                                         std::strtoull(words[3].c_str(), nullptr, 10)});
  } else if (is("failed", 3)) {
    lose(Error{code_of(words[1]), fmt::format("on {}: {}", options_.name, words[2]), {}}, events);
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
                "{1} has build {0} of dtrain, but this host has build {2}: copy this host's build to every host with "
                "--sync-dst-dir, or allow different builds with --allow-mixed-builds",
                build, options_.name, options_.build_id);
  }
  state_ = State::kOpen;
  wake_ = next_alive();
  waiting_.clear();
  send({"open", options_.job, std::to_string(options_.kill_after.count()), options_.mark});
  link_->send(std::exchange(held_, ""));
  return {};
}

void RemoteHost::lose(Error error, std::vector<HostEvent>& events) {
  state_ = State::kOver;
  link_->close();  // if the agent is still running, it then ends what it has started
  events.emplace_back(HostLost{std::move(error)});
}

std::string RemoteHost::words() const {
  return last_words_.empty() ? "" : fmt::format(": {}", fmt::join(last_words_, "; "));
}

Error RemoteHost::why_it_ended(const std::string& reason) const {
  if (state_ == State::kOpen) {
    return {Code::kPeerLost, fmt::format("the connection to {} broke{}", options_.name, words()), {}};
  }
  return {Code::kStartup, fmt::format("{} {}{}", options_.name, reason, words()), {}};
}

}  // namespace dtrain::launch
