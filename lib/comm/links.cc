#include "comm/links.h"

#include <arpa/inet.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/thread.h"
#include "comm/missing.h"

namespace dtrain::comm {
namespace {

using GlooBuffer = gloo::transport::UnboundBuffer;
using Milliseconds = std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr Milliseconds kForever = std::chrono::hours(24 * 365);
constexpr uint64_t kWatchSlot = 0;  // no message is ever sent on it
constexpr Links::Channel kGreeting = {"the exchange of greetings", 1};

// Strips the position in gloo's source code from a message such as "[../gloo/transport/tcp/pair.cc:598] Connection
// closed by peer [127.0.0.1]:4711".
std::string reason(const std::exception& e) {
  const std::string text = e.what();
  const size_t end = text.find("] ");
  return text.starts_with('[') && end != std::string::npos ? text.substr(end + 2) : text;
}

// Needed because gloo 0.5 crashes on a name that it cannot resolve.
bool is_address(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> bytes;
  return inet_pton(AF_INET, text.c_str(), bytes.data()) == 1 || inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1;
}

using Secret = std::array<uint32_t, 4>;

// What a rank passes to the exchange: this struct, followed by the address of its socket for each other rank, in order
// of ranks.
struct Invitation {
  std::array<char, 4> magic = {'D', 'T', 'G', '1'};
  uint32_t rank = 0;
  uint32_t size = 0;
  Secret secret = {};  // its connections start by sending it
};

struct Message {
  const Links::Round* round = nullptr;
  uint32_t peer = 0;
  bool is_send = false;
  std::unique_ptr<GlooBuffer> buffer;
  bool is_done = false;

  // Returns false if woken by abort. Throws what gloo throws; after a timeout gloo has closed all connections.
  [[nodiscard]] bool wait(Milliseconds limit) const {
    return is_send ? buffer->waitSend(limit) : buffer->waitRecv(limit);
  }
  void abort() const { is_send ? buffer->abortWaitSend() : buffer->abortWaitRecv(); }
};

// Whether the message has been sent or received. No other thread may abort the wait at this time, but an earlier abort
// may still be pending, hence the second attempt. If the message is not done, gloo closes all connections.
bool is_complete(const Message& message) {
  constexpr Milliseconds kNow{1};
  try {
    return message.wait(kNow) || message.wait(kNow);
  } catch (const std::exception&) {
    return false;
  }
}

// Why the connection of a sentinel buffer has ended; nullopt if it has not. Waiting with an abort pending returns at
// once, so this polls.
std::optional<std::string> end_of(GlooBuffer& sentinel) {
  try {
    sentinel.abortWaitRecv();
    sentinel.waitRecv(kForever);
    return std::nullopt;
  } catch (const std::exception& e) {
    return reason(e);
  }
}

class GlooLinks final : public Links {
 public:
  explicit GlooLinks(const GlooOptions& options) : rank_(options.rank), size_(options.size), is_lost_(options.size) {
    set_wait_limit(options.connect_limit_s);
  }
  ~GlooLinks() override;
  GlooLinks(const GlooLinks&) = delete;
  GlooLinks& operator=(const GlooLinks&) = delete;

  Result<> open(const GlooOptions& options, const Exchange& exchange);
  std::unique_ptr<Round> round(Channel channel) override;
  Result<> check() override DT_EXCLUDES(mutex_);
  void cancel(Error error) override DT_EXCLUDES(mutex_);

  // Used by rounds. post: creates a message and starts it. finish: waits until it is done. forget: stops tracking it.
  Result<std::unique_ptr<Message>> post(const Round& round, bool is_send, uint32_t peer, std::span<std::byte> bytes,
                                        Channel channel);
  Result<> finish(Message& message, Channel channel);
  void forget(const Message& message) { std::erase(open_, &message); }

 private:
  std::unique_ptr<GlooBuffer> make_buffer(void* data, size_t bytes) {
    return context_->createUnboundBuffer(data, bytes);
  }
  void set_wait_limit(double seconds) {
    wait_limit_s_ = seconds;
    wait_limit_ = Milliseconds(std::max<int64_t>(1, std::llround(seconds * 1000)));
  }
  Result<> listen(const std::string& ip);
  [[nodiscard]] std::string invitation() const;
  Result<> connect(const std::vector<std::string>& invitations);
  Result<> greet(const std::vector<std::string>& invitations);

  // Why the wait for a message ended.
  enum class End { kDone, kLate, kOther };
  End wait(Message& message);
  bool may_wait(const Message& message) DT_EXCLUDES(mutex_);
  bool lost_rank_owes_message() DT_EXCLUDES(mutex_);
  [[nodiscard]] std::vector<uint32_t> late_ranks(const Message& message) const;
  [[nodiscard]] Error closed(Channel channel) const DT_REQUIRES(mutex_);
  Result<> end_group(bool is_late, const Message& message, Channel channel) DT_EXCLUDES(mutex_);

  void close_connections();
  void lose(uint32_t peer, const std::string& why) DT_EXCLUDES(mutex_);
  void post_sentinels();
  void watch() DT_EXCLUDES(mutex_);

  const uint32_t rank_;
  const uint32_t size_;
  double wait_limit_s_ = 0;
  Milliseconds wait_limit_{};  // wait_limit_s_ in milliseconds
  Secret secret_ = {};
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::transport::Context> context_;

  std::vector<Message*> open_;  // all messages in flight; used only by the caller's thread
  size_t known_losses_ = 0;     // used only by the caller's thread

  Mutex mutex_;
  const Message* waits_for_ DT_GUARDED_BY(mutex_) = nullptr;  // the message that the caller's thread waits for
  std::vector<bool> is_lost_ DT_GUARDED_BY(mutex_);           // by rank
  std::vector<uint32_t> lost_ DT_GUARDED_BY(mutex_);          // in the order in which they were lost
  std::string first_loss_ DT_GUARDED_BY(mutex_);              // why the first of them was lost
  std::optional<Error> error_ DT_GUARDED_BY(mutex_);
  bool stop_ DT_GUARDED_BY(mutex_) = false;
  ConditionVariable stopped_;

  // Used by the watcher thread.
  std::byte nothing_{};
  std::unique_ptr<GlooBuffer> any_;                     // notified when any connection ends
  std::vector<std::unique_ptr<GlooBuffer>> sentinels_;  // by rank: notified when that rank's connection ends
  std::thread watcher_;
};

// A round of messages.

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
  std::vector<std::unique_ptr<Message>> messages_;  // links_ holds pointers to them
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

// Forming the group.

Result<> GlooLinks::open(const GlooOptions& options, const Exchange& exchange) {
  if (size_ == 1) return {};
  DT_TRY_VOID(listen(options.listen_ip));
  DT_TRY(const std::vector<std::string> invitations, exchange(invitation()));
  if (invitations.size() != size_) {
    return fail(Code::kStartup, "the exchange returned the addresses of {} ranks instead of {}", invitations.size(),
                size_);
  }
  DT_TRY_VOID(connect(invitations));
  post_sentinels();
  watcher_ = std::thread([this] {
    name_thread("gloo-watch");
    const Result<> watched = catching([this]() -> Result<> {
      watch();
      return {};
    });
    if (!watched) cancel(watched.error());
  });
  DT_TRY_VOID(greet(invitations));
  set_wait_limit(options.wait_limit_s);
  return {};
}

Result<> GlooLinks::listen(const std::string& ip) {
  if (!is_address(ip)) return fail(Code::kStartup, "'{}' is not an IP address to listen on", ip);
  try {
    device_ = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(ip.c_str()));
    context_ = device_->createContext(static_cast<int>(rank_), static_cast<int>(size_));
    // Connecting a pair may take five times this timeout.
    context_->setTimeout(std::max(wait_limit_ / 5, Milliseconds(1)));
    for (uint32_t peer = 0; peer < size_; peer++) {
      if (peer != rank_) context_->createPair(static_cast<int>(peer));
    }
  } catch (const std::exception& e) {
    return fail(Code::kStartup, "cannot listen on {}: {}", ip, reason(e));
  }
  std::random_device random;
  for (uint32_t& word : secret_) word = random();
  return {};
}

std::string GlooLinks::invitation() const {
  const Invitation mine{.rank = rank_, .size = size_, .secret = secret_};
  std::string bytes(reinterpret_cast<const char*>(&mine), sizeof mine);
  for (uint32_t peer = 0; peer < size_; peer++) {
    if (peer == rank_) continue;
    const std::vector<char> address = context_->getPair(static_cast<int>(peer))->address().bytes();
    bytes.append(address.begin(), address.end());
  }
  return bytes;
}

// Parses what a peer passed to the exchange. All addresses have the same length if all processes use the same build of
// gloo.
Result<Invitation> parse(const std::string& bytes, uint32_t rank, uint32_t size, size_t expected_bytes) {
  Invitation invitation;
  if (bytes.size() != expected_bytes) {
    return fail(Code::kStartup,
                "the address message of rank {} has {} bytes instead of {}; use the same build of dtrain on all hosts",
                rank, bytes.size(), expected_bytes);
  }
  std::memcpy(&invitation, bytes.data(), sizeof invitation);
  if (invitation.magic != Invitation{}.magic || invitation.rank != rank || invitation.size != size) {
    return fail(Code::kStartup, "the address message of rank {} of {} is invalid", rank, size);
  }
  return invitation;
}

Result<> GlooLinks::connect(const std::vector<std::string>& invitations) {
  const size_t bytes = invitation().size();
  for (uint32_t peer = 0; peer < size_; peer++) {
    DT_TRY_VOID(parse(invitations[peer], peer, size_, bytes));
    if (peer == rank_) continue;
    gloo::transport::Pair& pair = *context_->getPair(static_cast<int>(peer));
    const size_t address_bytes = pair.address().bytes().size();
    const size_t nth = rank_ < peer ? rank_ : rank_ - 1;  // a rank has no address for itself
    const char* address = invitations[peer].data() + sizeof(Invitation) + nth * address_bytes;
    try {
      pair.connect({address, address + address_bytes});
    } catch (const std::exception& e) {
      return fail(Code::kPeerLost, "cannot connect to rank {} within {:g} s: {}", peer, wait_limit_s_, reason(e));
    }
  }
  return {};
}

// Exchanges secrets with every peer: only the process that took part in the exchange as that rank knows the right one.
Result<> GlooLinks::greet(const std::vector<std::string>& invitations) {
  std::vector<Secret> received(size_);
  const std::unique_ptr<Round> greetings = round(kGreeting);
  for (uint32_t peer = 0; peer < size_; peer++) {
    if (peer == rank_) continue;
    DT_TRY_VOID(greetings->send(peer, std::as_bytes(std::span(secret_))));
    DT_TRY_VOID(greetings->receive(peer, std::as_writable_bytes(std::span(received[peer]))));
  }
  DT_TRY_VOID(greetings->finish());
  for (uint32_t peer = 0; peer < size_; peer++) {
    Invitation invitation;
    std::memcpy(&invitation, invitations[peer].data(), sizeof invitation);
    if (peer == rank_ || received[peer] == invitation.secret) continue;
    return fail(Code::kStartup, "a process that does not belong to the group has connected as rank {}", peer);
  }
  return {};
}

GlooLinks::~GlooLinks() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    if (any_) any_->abortWaitRecv();
  }
  stopped_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

// Messages.

Result<std::unique_ptr<Message>> GlooLinks::post(const Round& round, bool is_send, uint32_t peer,
                                                 std::span<std::byte> bytes, Channel channel) {
  DT_TRY_VOID(check());
  auto message =
      std::make_unique<Message>(Message{&round, peer, is_send, make_buffer(bytes.data(), bytes.size()), false});
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

// A thread that waits for one rank is woken when another is lost, because the first may itself depend on the lost one.
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

// False after an error, if a lost rank has not sent or taken all that it should have, or if the search for such
// messages finds that this one is done.
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

// Whether a lost rank still owes a message or has not taken one.
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

// The ranks that are late with messages of this message's round. Messages of later rounds are not due yet.
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

// Ends the group unless it has ended already, and returns its error.
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

// Wakes the caller's thread. gloo itself does so only for a message that had not begun.
void GlooLinks::lose(uint32_t peer, const std::string& why) {
  const MutexLock lock(mutex_);
  if (is_lost_[peer]) return;
  is_lost_[peer] = true;
  if (lost_.empty()) first_loss_ = why;
  lost_.push_back(peer);
  if (waits_for_ != nullptr) waits_for_->abort();
}

// Posts receives, from every rank, for a message that never comes. gloo notifies their buffers when the connection
// ends, whatever else is in flight. They are posted only once: anything sent later could reach a peer that is done and
// closing. That would reset the connection instead of ending it, and the data that others have yet to read from it
// would be lost.
void GlooLinks::post_sentinels() {
  any_ = make_buffer(&nothing_, sizeof nothing_);
  for (uint32_t peer = 0; peer < size_; peer++) {
    sentinels_.push_back(make_buffer(&nothing_, sizeof nothing_));
    if (peer == rank_) continue;
    try {
      any_->recv(static_cast<int>(peer), kWatchSlot, 0, sizeof nothing_);
      sentinels_[peer]->recv(static_cast<int>(peer), kWatchSlot, 0, sizeof nothing_);
    } catch (const std::exception& e) {
      lose(peer, reason(e));
    }
  }
}

// Sleeps until the first connection ends, then polls all connections, since others are ending too or soon will.
void GlooLinks::watch() {
  try {
    any_->waitRecv(kForever);
  } catch (const std::exception&) {  // a connection has ended; the sentinels know which one
  }
  const MutexLock lock(mutex_);
  while (!stop_) {
    {
      const MutexUnlock unlocked(mutex_);
      for (uint32_t peer = 0; peer < size_; peer++) {
        const std::optional<std::string> why = end_of(*sentinels_[peer]);
        if (why) lose(peer, *why);
      }
    }
    stopped_.wait_for(mutex_, Milliseconds(20), [this]() DT_REQUIRES(mutex_) { return stop_; });
  }
}

}  // namespace

Result<std::unique_ptr<Links>> Links::connect(const GlooOptions& options, const Exchange& exchange) {
  auto links = std::make_unique<GlooLinks>(options);
  DT_TRY_VOID(links->open(options, exchange));
  return links;
}

}  // namespace dtrain::comm
