#include "comm/links.h"

#include <arpa/inet.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "comm/gloo_message.h"
#include "comm/invitation.h"
#include "comm/link_watch.h"
#include "comm/missing.h"
#include "comm/silence.h"

namespace dtrain::comm {
namespace {

using Milliseconds = std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr Links::Channel kGreeting = {"the exchange of greetings", 1};

// Whether the text is an IP address. gloo 0.5 crashes on a name that it cannot resolve.
bool is_address(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> bytes;
  return inet_pton(AF_INET, text.c_str(), bytes.data()) == 1 || inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1;
}

using SocketAddress = gloo::transport::tcp::Address;

// The bytes of an address of gloo that have a meaning: its number, and the socket's address. gloo's own form has 136
// bytes, of which most are padding that is never written.
std::string compact(const SocketAddress& address) {
  const sockaddr_storage& socket = address.getSockaddr();
  const int64_t number = address.getSeq();
  std::string bytes(reinterpret_cast<const char*>(&number), sizeof number);
  bytes.append(reinterpret_cast<const char*>(&socket),
               socket.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  return bytes;
}

// Gives gloo's own form of an address that a peer has sent; nullopt if it is none.
std::optional<std::vector<char>> expand(std::string_view bytes) {
  int64_t number = 0;
  sockaddr_storage socket{};
  if (bytes.size() <= sizeof number || bytes.size() - sizeof number > sizeof socket) return std::nullopt;
  std::memcpy(&number, bytes.data(), sizeof number);
  std::memcpy(&socket, bytes.data() + sizeof number, bytes.size() - sizeof number);
  const size_t expected = socket.ss_family == AF_INET    ? sizeof(sockaddr_in)
                          : socket.ss_family == AF_INET6 ? sizeof(sockaddr_in6)
                                                         : 0;
  if (bytes.size() != sizeof number + expected) return std::nullopt;
  return SocketAddress(socket, number).bytes();
}

class GlooLinks final : public Links {
 public:
  explicit GlooLinks(const GlooOptions& options) : rank_(options.rank), size_(options.size), is_lost_(options.size) {
    set_wait_limit(options.connect_limit_s);
  }

  Result<> open(const GlooOptions& options, const PairExchange& exchange);
  std::unique_ptr<Round> round(Channel channel) override;
  Result<> check() override DT_EXCLUDES(mutex_);
  void cancel(Error error) override DT_EXCLUDES(mutex_);

  // Used by rounds. post: creates a message and starts it. finish: waits until it is done. forget: stops tracking it.
  Result<std::unique_ptr<Message>> post(const Round& round, bool is_send, uint32_t peer, std::span<std::byte> bytes,
                                        Channel channel);
  Result<> finish(Message& message, Channel channel);
  void forget(const Message& message) { std::erase(open_, &message); }

 private:
  void set_wait_limit(double seconds) {
    wait_limit_s_ = seconds;
    wait_limit_ = Milliseconds(std::max<int64_t>(1, std::llround(seconds * 1000)));
  }
  Result<> listen(const std::string& ip);
  [[nodiscard]] std::vector<std::string> invitations() const;
  Result<std::vector<Secret>> connect(const std::vector<std::string>& invitations,
                                      const std::function<void(uint32_t)>& on_unreached);
  void limit_silence(const std::vector<std::string>& invitations, double seconds) const;
  Result<> greet(const std::vector<Secret>& secrets);

  // The reason why the wait for a message ended.
  enum class End { kDone, kLate, kOther };
  End wait(Message& message);
  bool may_wait(const Message& message) DT_EXCLUDES(mutex_);
  bool lost_rank_owes_message() DT_EXCLUDES(mutex_);
  [[nodiscard]] std::vector<uint32_t> late_ranks(const Message& message) const;
  [[nodiscard]] Error closed(Channel channel) const DT_REQUIRES(mutex_);
  Result<> end_group(bool is_late, const Message& message, Channel channel) DT_EXCLUDES(mutex_);

  void close_connections();
  void lose(uint32_t peer, const std::string& why) DT_EXCLUDES(mutex_);

  const uint32_t rank_;
  const uint32_t size_;
  double wait_limit_s_ = 0;
  Milliseconds wait_limit_{};  // limit for the wait for a message
  Secret secret_ = {};
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::transport::Context> context_;

  std::vector<Message*> open_;  // all messages in flight; used only by the caller's thread
  size_t known_losses_ = 0;  // how many of lost_ the caller's thread has taken into account; used only by that thread

  Mutex mutex_;
  const Message* waits_for_ DT_GUARDED_BY(mutex_) = nullptr;  // the message that the caller's thread waits for
  std::vector<bool> is_lost_ DT_GUARDED_BY(mutex_);           // whether each rank is lost, indexed by rank
  std::vector<uint32_t> lost_ DT_GUARDED_BY(mutex_);          // lost ranks, in the order in which they were lost
  std::string first_loss_ DT_GUARDED_BY(mutex_);              // why the first rank in lost_ was lost
  std::optional<Error> error_ DT_GUARDED_BY(mutex_);

  std::optional<LinkWatch> watch_;  // the last member, because its thread uses the others
};

// The messages of a round.

class GlooRound final : public Links::Round {
 public:
  GlooRound(GlooLinks& links, Links::Channel channel) : links_(links), channel_(channel) {}
  ~GlooRound() override { clear(); }
  GlooRound(const GlooRound&) = delete;
  GlooRound& operator=(const GlooRound&) = delete;

  Result<> send(uint32_t to, std::span<const std::byte> bytes) override {
    // gloo uses the same type of buffer for both directions.
    return post(true, to, {const_cast<std::byte*>(bytes.data()), bytes.size()});
  }
  Result<> receive(uint32_t from, std::span<std::byte> bytes) override { return post(false, from, bytes); }
  Result<> finish() override;

 private:
  Result<> post(bool is_send, uint32_t peer, std::span<std::byte> bytes) {
    DT_TRY(messages_.emplace_back(), links_.post(*this, is_send, peer, bytes, channel_));
    return {};
  }
  void clear();

  GlooLinks& links_;
  const Links::Channel channel_;
  std::vector<std::unique_ptr<Message>> messages_;  // the messages of this round; links_ has pointers to them
};

Result<> GlooRound::finish() {
  for (const auto& message : messages_) DT_TRY_VOID(links_.finish(*message, channel_));
  clear();
  return {};
}

void GlooRound::clear() {
  for (const auto& message : messages_) links_.forget(*message);
  messages_.clear();
}

std::unique_ptr<Links::Round> GlooLinks::round(Channel channel) {
  return std::make_unique<GlooRound>(*this, channel);
}

// The following functions form the group.

Result<> GlooLinks::open(const GlooOptions& options, const PairExchange& exchange) {
  if (size_ == 1) return {};
  DT_TRY_VOID(listen(options.listen_ip));
  DT_TRY(const std::vector<std::string> received, exchange(invitations()));
  if (received.size() != size_) {
    return fail(Code::kStartup, "the exchange returned the addresses of {} ranks instead of {}", received.size(),
                size_);
  }
  DT_TRY(const std::vector<Secret> secrets, connect(received, options.on_unreached));
  if (options.silence_limit_s > 0) limit_silence(received, options.silence_limit_s);
  watch_.emplace(*context_, rank_, size_,
                 LinkWatch::Callbacks{.lost = [this](uint32_t peer, const std::string& why) { lose(peer, why); },
                                      .failed = [this](Error error) { cancel(std::move(error)); }});
  DT_TRY_VOID(greet(secrets));
  set_wait_limit(options.wait_limit_s);
  return {};
}

Result<> GlooLinks::listen(const std::string& ip) {
  if (!is_address(ip)) return fail(Code::kStartup, "cannot listen on '{}', because it is not an IP address", ip);
  try {
    device_ = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(ip.c_str()));
    context_ = device_->createContext(static_cast<int>(rank_), static_cast<int>(size_));
    // Because connecting a pair may take five times the context's timeout, it is set to a fifth of the limit.
    context_->setTimeout(std::max(wait_limit_ / 5, Milliseconds(1)));
    for (uint32_t peer = 0; peer < size_; peer++) {
      if (peer != rank_) context_->createPair(static_cast<int>(peer));
    }
  } catch (const std::exception& e) {
    return fail(Code::kStartup, "cannot listen on {}: {}", ip, reason(e));
  }
  secret_ = draw_secret();
  return {};
}

// The invitation for each rank. gloo has a socket of its own for each.
std::vector<std::string> GlooLinks::invitations() const {
  std::vector<std::string> for_each;
  for (uint32_t peer = 0; peer < size_; peer++) {
    std::string address;
    if (peer != rank_) address = compact(SocketAddress(context_->getPair(static_cast<int>(peer))->address().bytes()));
    for_each.push_back(Invitation::serialize(rank_, size_, secret_, address));
  }
  return for_each;
}

// Returns the secrets of all ranks.
Result<std::vector<Secret>> GlooLinks::connect(const std::vector<std::string>& invitations,
                                               const std::function<void(uint32_t)>& on_unreached) {
  std::vector<Secret> secrets;
  for (uint32_t peer = 0; peer < size_; peer++) {
    DT_TRY(const Invitation invitation, Invitation::parse(invitations[peer], peer, size_));
    secrets.push_back(invitation.secret());
    if (peer == rank_) continue;
    const std::optional<std::vector<char>> address = expand(invitation.address());
    if (!address) return fail(Code::kStartup, "the address message of rank {} has no valid address", peer);
    try {
      context_->getPair(static_cast<int>(peer))->connect(*address);
    } catch (const std::exception& e) {
      if (on_unreached) on_unreached(peer);
      return fail(Code::kPeerLost, "cannot connect to rank {} within {:g} s: {}", peer, wait_limit_s_, reason(e));
    }
  }
  return secrets;
}

// gloo does not show the sockets of its connections. One end has the address that this rank gave to the peer, or the
// other end has the address that the peer gave to this rank.
void GlooLinks::limit_silence(const std::vector<std::string>& invitations, double seconds) const {
  std::vector<std::string> addresses;
  for (uint32_t peer = 0; peer < size_; peer++) {
    if (peer == rank_) continue;
    addresses.push_back(compact(SocketAddress(context_->getPair(static_cast<int>(peer))->address().bytes())));
    const Result<Invitation> invitation = Invitation::parse(invitations[peer], peer, size_);
    if (invitation) addresses.emplace_back(invitation->address());
  }
  for (std::string& address : addresses) address.erase(0, sizeof(int64_t));  // without gloo's number
  limit_silence_of(addresses, seconds);
}

// Exchanges secrets with every peer. Only the process that took part in the exchange as that rank knows the right
// secret.
Result<> GlooLinks::greet(const std::vector<Secret>& secrets) {
  std::vector<Secret> received(size_);
  const std::unique_ptr<Round> greetings = round(kGreeting);
  for (uint32_t peer = 0; peer < size_; peer++) {
    if (peer == rank_) continue;
    DT_TRY_VOID(greetings->send(peer, std::as_bytes(std::span(secret_))));
    DT_TRY_VOID(greetings->receive(peer, std::as_writable_bytes(std::span(received[peer]))));
  }
  DT_TRY_VOID(greetings->finish());
  for (uint32_t peer = 0; peer < size_; peer++) {
    if (peer == rank_ || received[peer] == secrets[peer]) continue;
    return fail(Code::kStartup, "a process that does not belong to the group has connected as rank {}", peer);
  }
  return {};
}

// The following functions wait for messages and handle lost ranks.

Result<std::unique_ptr<Message>> GlooLinks::post(const Round& round, bool is_send, uint32_t peer,
                                                 std::span<std::byte> bytes, Channel channel) {
  DT_TRY_VOID(check());
  auto message = std::make_unique<Message>(
      Message{&round, peer, is_send, context_->createUnboundBuffer(bytes.data(), bytes.size()), false});
  try {
    const int to = static_cast<int>(peer);
    if (is_send) {
      message->buffer->send(to, channel.number, 0, bytes.size());
    } else {
      message->buffer->recv(to, channel.number, 0, bytes.size());
    }
  } catch (const std::exception& e) {
    lose(peer, reason(e));
    DT_TRY_VOID(end_group(false, *message, channel));
  }
  open_.push_back(message.get());
  return message;
}

Result<> GlooLinks::finish(Message& message, Channel channel) {
  const End end = wait(message);
  if (end != End::kDone) return end_group(end == End::kLate, message, channel);
  forget(message);
  return {};
}

// Waits for a message. A thread that waits for one rank is also woken when another rank is lost, because the first may
// itself depend on the lost one.
GlooLinks::End GlooLinks::wait(Message& message) {
  while (!message.is_done && may_wait(message)) {
    const Clock::time_point begin = Clock::now();
    std::optional<std::string> thrown;
    try {
      message.is_done = message.wait(wait_limit_);
    } catch (const std::exception& e) {
      thrown = reason(e);
    }
    {
      const MutexLock lock(mutex_);
      waits_for_ = nullptr;
    }
    if (thrown && Clock::now() - begin >= wait_limit_) return End::kLate;
    if (thrown) {
      lose(message.peer, *thrown);
      return End::kOther;
    }
  }
  return message.is_done ? End::kDone : End::kOther;
}

// Whether to wait for the message. False in three cases: after an error; if a lost rank has not sent or received
// everything that it should have; or if this message turns out to be done while those of the lost ranks are checked.
bool GlooLinks::may_wait(const Message& message) {
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (error_) return false;
      if (known_losses_ == lost_.size()) {
        waits_for_ = &message;
        return true;
      }
      known_losses_ = lost_.size();
    }
    if (lost_rank_owes_message() || message.is_done) return false;
  }
}

// Whether a lost rank has not sent or not received a message that is in flight.
bool GlooLinks::lost_rank_owes_message() {
  std::vector<bool> is_lost;
  {
    const MutexLock lock(mutex_);
    is_lost = is_lost_;
  }
  bool misses = false;
  for (Message* message : open_) {
    if (is_lost[message->peer] && !message->is_done) message->is_done = is_complete(*message);
    misses = misses || (is_lost[message->peer] && !message->is_done);
  }
  return misses;
}

// The ranks whose messages in the round of `message` are late. Messages of later rounds are not due yet.
std::vector<uint32_t> GlooLinks::late_ranks(const Message& message) const {
  std::vector<uint32_t> late = {message.peer};
  for (const Message* open : open_) {
    const bool is_due = open->round == message.round && !open->is_done;
    if (is_due && std::find(late.begin(), late.end(), open->peer) == late.end() && !is_complete(*open)) {
      late.push_back(open->peer);
    }
  }
  std::sort(late.begin(), late.end());
  return late;
}

// Ends the group unless it has ended already. Returns its error.
Result<> GlooLinks::end_group(bool is_late, const Message& message, Channel channel) {
  const std::vector<uint32_t> late = is_late ? late_ranks(message) : std::vector<uint32_t>();
  {
    const MutexLock lock(mutex_);
    if (!error_) error_ = is_late ? timeout_error("rank", late, channel.operation, wait_limit_s_) : closed(channel);
  }
  close_connections();
  return check();
}

Error GlooLinks::closed(Channel channel) const {
  return {
      Code::kPeerLost,
      fmt::format("{} closed the connection during {}: {}", ranks_have("rank", lost_), channel.operation, first_loss_),
      {}};
}

Result<> GlooLinks::check() {
  const MutexLock lock(mutex_);
  return error_ ? Result<>(tl::unexpected(*error_)) : Result<>();
}

void GlooLinks::cancel(Error error) {
  {
    const MutexLock lock(mutex_);
    if (!error_) error_ = std::move(error);
    if (waits_for_ != nullptr) waits_for_->abort();
  }
  close_connections();
}

void GlooLinks::close_connections() {
  for (uint32_t peer = 0; peer < size_; peer++) {
    if (peer != rank_) context_->getPair(static_cast<int>(peer))->close();
  }
}

// Records that a rank is lost, and wakes the caller's thread. gloo itself wakes it only for a message that had not
// begun.
void GlooLinks::lose(uint32_t peer, const std::string& why) {
  const MutexLock lock(mutex_);
  if (is_lost_[peer]) return;
  is_lost_[peer] = true;
  if (lost_.empty()) first_loss_ = why;
  lost_.push_back(peer);
  if (waits_for_ != nullptr) waits_for_->abort();
}

}  // namespace

Result<std::unique_ptr<Links>> Links::connect(const GlooOptions& options, const PairExchange& exchange) {
  auto links = std::make_unique<GlooLinks>(options);
  DT_TRY_VOID(links->open(options, exchange));
  return links;
}

}  // namespace dtrain::comm
