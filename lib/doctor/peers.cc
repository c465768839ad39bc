#include "doctor/peers.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/poll_until.h"
#include "base/thread.h"
#include "job/process/token.h"
#include "net/acceptor.h"
#include "net/connecting.h"

namespace dtrain::doctor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kHello = "dtrain-doctor ";
constexpr unsigned kUnacknowledgedMs = 15'000;
constexpr size_t kLineMax = 256;
constexpr size_t kBlock = size_t{256} << 10;
constexpr int64_t kBytesMax = int64_t{1} << 30;  // limit of the BYTES of a take or give request

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

bool would_block() {
  return errno == EAGAIN || errno == EINTR;
}

// The error for a connection that the peer has closed. If it closes the connection while bytes for it are in flight, it
// answers these with a reset. So depending on the timing, this end sees the end of the stream, a reset or a broken
// pipe.
tl::unexpected<Error> lost_peer(int error) {
  if (error == 0 || error == ECONNRESET || error == EPIPE)
    return fail(Code::kStartup, "the peer closed the connection");
  return fail(Code::kStartup, "the connection broke: {}", std::strerror(error));
}

// The serving end of a connection. No call blocks.
class Served {
 public:
  explicit Served(UniqueFd connection) : connection_(std::move(connection)) { net::set_watched(connection_); }

  [[nodiscard]] bool over() const { return !connection_.open() || Clock::now() >= until_; }
  [[nodiscard]] bool is_known() const { return is_known_; }
  [[nodiscard]] Clock::time_point until() const { return until_; }
  [[nodiscard]] pollfd watched() const {
    const bool sends = !outbox_.empty() || to_give_ > 0;
    return {.fd = connection_.get(), .events = static_cast<short>(POLLIN | (sends ? POLLOUT : 0)), .revents = 0};
  }

  void work(const std::string& key, const std::vector<char>& block) {
    receive(key);
    send(block);
  }

 private:
  static constexpr auto kHelloTime = std::chrono::seconds(5);
  static constexpr auto kIdleTime = std::chrono::seconds(15);

  void receive(const std::string& key) {
    std::array<char, kBlock> bytes;
    for (int turn = 0; turn < 8 && connection_.open(); turn++) {
      const ssize_t got = ::recv(connection_.get(), bytes.data(), bytes.size(), 0);
      if (got < 0 && would_block()) return;
      if (got <= 0) return connection_.close();
      take({bytes.data(), static_cast<size_t>(got)}, key);
    }
  }

  void take(std::string_view bytes, const std::string& key) {
    if (is_known_) until_ = Clock::now() + kIdleTime;
    while (!bytes.empty() && connection_.open()) {
      if (to_take_ > 0) {
        const auto part = std::min(to_take_, static_cast<int64_t>(bytes.size()));
        bytes.remove_prefix(static_cast<size_t>(part));
        to_take_ -= part;
        if (to_take_ == 0) outbox_ += "took\n";
        continue;
      }
      const size_t end = bytes.find('\n');
      line_ += bytes.substr(0, end);
      bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
      if (line_.size() > kLineMax) return connection_.close();
      if (end != std::string_view::npos) handle(std::exchange(line_, ""), key);
    }
  }

  void handle(const std::string& line, const std::string& key) {
    if (!is_known_) {
      is_known_ = line.starts_with(kHello) && job::same_token(line.substr(kHello.size()), key);
      return is_known_ ? void() : connection_.close();
    }
    const int64_t bytes = line.size() > 5 ? std::strtoll(line.c_str() + 5, nullptr, 10) : 0;
    if (line == "ping") {
      outbox_ += fmt::format("pong {:.9f}\n", wall_clock_s());
    } else if (line.starts_with("take ") && bytes > 0 && bytes <= kBytesMax) {
      to_take_ = bytes;
    } else if (line.starts_with("give ") && bytes > 0 && bytes <= kBytesMax) {
      to_give_ = bytes;
    } else {
      connection_.close();
    }
  }

  void send(const std::vector<char>& block) {
    while (connection_.open() && (!outbox_.empty() || to_give_ > 0)) {
      const bool words = !outbox_.empty();
      const char* data = words ? outbox_.data() : block.data();
      const size_t size = words ? outbox_.size() : static_cast<size_t>(std::min<int64_t>(to_give_, std::ssize(block)));
      const ssize_t put = ::send(connection_.get(), data, size, MSG_NOSIGNAL);
      if (put < 0 && would_block()) return;
      if (put <= 0) return connection_.close();
      until_ = Clock::now() + kIdleTime;
      if (words) {
        outbox_.erase(0, static_cast<size_t>(put));
      } else {
        to_give_ -= put;
      }
    }
  }

  UniqueFd connection_;
  Clock::time_point until_ = Clock::now() + kHelloTime;
  bool is_known_ = false;
  std::string line_, outbox_;
  int64_t to_take_ = 0, to_give_ = 0;
};

// A connection whose peer has not yet proved that it knows the key. When it has, the connection moves to `served`.
class NewPeer : public net::Caller {
 public:
  NewPeer(UniqueFd connection, const std::string& key, const std::vector<char>& block, std::vector<Served>& served)
      : peer_(std::move(connection)), key_(key), block_(block), served_(served) {}

  bool waits() override {
    peer_.work(key_, block_);
    if (peer_.over() || !peer_.is_known()) return !peer_.over();
    served_.push_back(std::move(peer_));
    return false;
  }
  [[nodiscard]] pollfd watched() const override { return peer_.watched(); }
  [[nodiscard]] Clock::time_point until() const override { return peer_.until(); }

 private:
  Served peer_;
  const std::string& key_;
  const std::vector<char>& block_;
  std::vector<Served>& served_;
};

// The connecting end of a connection. Each call waits for at most `limit_`.
class Peer {
 public:
  static Result<Peer> connect(const net::Endpoint& endpoint, const std::string& key, std::chrono::milliseconds limit) {
    DT_TRY(UniqueFd connection, net::connect_to(endpoint, limit));
    Peer peer(std::move(connection), limit);
    DT_TRY_VOID(peer.send(fmt::format("{}{}\n", kHello, key)));
    return peer;
  }

  Result<> send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t put = ::send(connection_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (put > 0) {
        bytes.remove_prefix(static_cast<size_t>(put));
      } else if (put < 0 && would_block()) {
        DT_TRY_VOID(wait_for(POLLOUT));
      } else {
        return lost_peer(errno);
      }
    }
    return {};
  }

  Result<std::string> receive_line() {
    size_t end = 0;
    while ((end = inbox_.find('\n')) == std::string::npos) {
      if (inbox_.size() > kLineMax) return fail(Code::kStartup, "the peer is not dtrain doctor");
      DT_TRY_VOID(receive_some());
    }
    std::string line = inbox_.substr(0, end);
    inbox_.erase(0, end + 1);
    return line;
  }

  Result<> receive(int64_t bytes) {
    while (std::ssize(inbox_) < bytes) {
      bytes -= std::ssize(inbox_);
      inbox_.clear();
      DT_TRY_VOID(receive_some());
    }
    inbox_.erase(0, static_cast<size_t>(bytes));
    return {};
  }

 private:
  Peer(UniqueFd connection, std::chrono::milliseconds limit) : connection_(std::move(connection)), limit_(limit) {}

  Result<> wait_for(short what) {
    pollfd watched{.fd = connection_.get(), .events = what, .revents = 0};
    const auto until = Clock::now() + limit_;
    int ready = 0;
    while ((ready = poll_until({&watched, 1}, until)) < 0 && errno == EINTR) {
    }
    if (ready > 0) return {};
    return fail(Code::kStartup, "connected, but no answer within {:.0f} s",
                std::chrono::duration<double>(limit_).count());
  }

  Result<> receive_some() {
    buffer_.resize(kBlock);
    ssize_t got = 0;
    while ((got = ::recv(connection_.get(), buffer_.data(), buffer_.size(), 0)) < 0 && would_block()) {
      DT_TRY_VOID(wait_for(POLLIN));
    }
    if (got <= 0) return lost_peer(got == 0 ? 0 : errno);
    inbox_.append(buffer_.data(), static_cast<size_t>(got));
    return {};
  }

  UniqueFd connection_;
  std::chrono::milliseconds limit_;
  std::string inbox_;
  std::vector<char> buffer_;
};

// Measures a round trip, and how far the peer's clock is ahead, assuming that the peer read it halfway through the
// round trip.
Result<Contact> ping(Peer& peer) {
  const double wall = wall_clock_s();
  const auto begin = Clock::now();
  DT_TRY_VOID(peer.send("ping\n"));
  DT_TRY(const std::string line, peer.receive_line());
  const double time = seconds_between(begin, Clock::now());
  if (!line.starts_with("pong ")) return fail(Code::kStartup, "the peer is not dtrain doctor");
  return Contact{.round_trip_s = time, .clock_ahead_s = std::strtod(line.c_str() + 5, nullptr) - (wall + time / 2)};
}

Result<Contact> contact(const Target& target, const std::string& key, std::chrono::milliseconds limit) {
  constexpr int kPings = 7;
  DT_TRY(Peer peer, Peer::connect(target.endpoint, key, limit));
  DT_TRY(Contact best, ping(peer));
  for (int i = 1; i < kPings; i++) {
    DT_TRY(const Contact next, ping(peer));
    if (next.round_trip_s < best.round_trip_s) best = next;
  }
  return best;
}

// Returns the speed in bytes/s. First moves a small number of bytes, to find out how many bytes take about `time`; then
// moves these.
Result<double> speed_of(const std::function<Result<>(int64_t bytes)>& move, std::chrono::milliseconds time) {
  constexpr int64_t kFirst = 1 << 20;
  double speed = 0;
  for (int64_t bytes = kFirst; bytes > 0;) {
    const auto begin = Clock::now();
    DT_TRY_VOID(move(bytes));
    const double seconds = std::max(1e-6, seconds_between(begin, Clock::now()));
    speed = static_cast<double>(bytes) / seconds;
    const double wanted = speed * std::chrono::duration<double>(time).count();
    bytes = bytes == kFirst ? static_cast<int64_t>(std::min(wanted, static_cast<double>(kBytesMax))) : 0;
  }
  return speed;
}

}  // namespace

Result<net::ListeningSockets> listen_at(const net::Listen& where) {
  auto opened = net::open_first_port(where, kUnacknowledgedMs);
  if (opened) return std::move(*opened);
  const std::string ports = where.port_first == 0  ? "any port"
                            : where.port_last == 0 ? fmt::format("port {}", where.port_first)
                                                   : fmt::format("ports {}-{}", where.port_first, where.port_last);
  return fail(Code::kStartup, "cannot listen at {}, {}: {}", where.host, ports, std::strerror(opened.error()));
}

void serve_peers(std::vector<UniqueFd> listeners, const std::string& key, std::chrono::milliseconds lifetime,
                 const Log& log, int stop) {
  constexpr auto kTurn = std::chrono::seconds(1);  // how often connections whose time is over are looked for
  const std::vector<char> block(kBlock, 'x');
  std::vector<Served> served;
  net::Acceptor acceptor(
      std::move(listeners), net::AcceptorLimits::of_process(),
      [&log](const std::string& text) { log.warn("{}", text); },
      [&](UniqueFd connection) { return std::make_unique<NewPeer>(std::move(connection), key, block, served); });
  for (const auto end = Clock::now() + lifetime; Clock::now() < end;) {
    std::vector<pollfd> watched(1, {.fd = stop, .events = POLLIN, .revents = 0});  // poll ignores a negative descriptor
    for (const Served& peer : served) watched.push_back(peer.watched());
    const size_t of_peers = watched.size();
    acceptor.watch(watched);
    const auto turn = std::min(end, Clock::now() + kTurn);
    poll_until(watched, std::min(turn, acceptor.wakes_at().value_or(turn)));
    if (watched[0].revents != 0) return;
    for (size_t i = 0; i < served.size(); i++) {
      if (watched[1 + i].revents != 0) served[i].work(key, block);
    }
    std::erase_if(served, [](const Served& peer) { return peer.over(); });
    acceptor.turn(std::span(watched).subspan(of_peers));
  }
}

std::string to_text(const std::vector<Target>& targets) {
  std::string text;
  for (const Target& target : targets) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", target.host, net::to_text(target.endpoint));
  }
  return text;
}

Result<std::vector<Target>> parse_targets(std::string_view text) {
  std::vector<Target> targets;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const size_t equals = one.find('=');
    if (equals == std::string_view::npos) return fail(Code::kUsage, "'{}' is not NUMBER=HOST:PORT", one);
    DT_TRY(const net::Endpoint endpoint, net::parse_endpoint(one.substr(equals + 1)));
    targets.push_back({std::strtoll(std::string(one.substr(0, equals)).c_str(), nullptr, 10), endpoint});
  }
  return targets;
}

std::vector<Contact> contact_all(const std::vector<Target>& targets, const std::string& key,
                                 std::chrono::milliseconds limit) {
  constexpr int64_t kAtOnce = 128;
  std::vector<Contact> contacts(targets.size());
  ThreadPool pool(static_cast<int>(std::clamp<int64_t>(std::ssize(targets), 1, kAtOnce)), "contact");
  pool.parallel_for(std::ssize(targets), [&](int64_t i) {
    const Target& target = targets[static_cast<size_t>(i)];
    Result<Contact> made = contact(target, key, limit);
    Contact& result = contacts[static_cast<size_t>(i)];
    result = made ? *made : Contact{.error = made.error().message};
    result.host = target.host;
  });
  return contacts;
}

PathSpeed measure_path(const net::Endpoint& endpoint, const std::string& key, std::chrono::milliseconds time) {
  constexpr auto kLimit = std::chrono::seconds(5);
  const std::string block(kBlock, 'x');
  PathSpeed speed;
  const auto measure = [&]() -> Result<> {
    DT_TRY(Peer peer, Peer::connect(endpoint, key, kLimit));
    DT_TRY_VOID(ping(peer));
    const auto send = [&](int64_t bytes) -> Result<> {
      DT_TRY_VOID(peer.send(fmt::format("take {}\n", bytes)));
      for (int64_t left = bytes; left > 0; left -= std::ssize(block)) {
        DT_TRY_VOID(
            peer.send(std::string_view(block).substr(0, static_cast<size_t>(std::min(left, std::ssize(block))))));
      }
      DT_TRY_VOID(peer.receive_line());
      return {};
    };
    const auto receive = [&](int64_t bytes) -> Result<> {
      DT_TRY_VOID(peer.send(fmt::format("give {}\n", bytes)));
      return peer.receive(bytes);
    };
    DT_TRY(speed.out, speed_of(send, time));
    DT_TRY(speed.back, speed_of(receive, time));
    return {};
  };
  if (const Result<> measured = measure(); !measured) speed.error = measured.error().message;
  return speed;
}

double wall_clock_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace dtrain::doctor
