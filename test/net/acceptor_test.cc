#include "net/acceptor.h"

#include <condition_variable>
#include <mutex>
#include <set>

#include "net/listening_sockets.h"
#include "net/tcp.h"
#include "support/catch.h"
#include "support/patience.h"

namespace dtrain::net {
namespace {

using namespace std::chrono_literals;
using namespace dtrain::test;

// Keeps the connections that are handed over, and the first bytes that came over each.
class Taker {
 public:
  void take(UniqueFd connection) {
    char bytes[64];
    const ssize_t got = ::read(connection.get(), bytes, sizeof(bytes));
    const std::lock_guard lock(mutex_);
    taken_.push_back(std::move(connection));
    heard_.emplace(bytes, static_cast<size_t>(std::max<ssize_t>(got, 0)));
    changed_.notify_all();
  }
  bool hears(const std::string& words) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 10s, [&] { return heard_.contains(words); });
  }
  void drop_all() {
    const std::lock_guard lock(mutex_);
    taken_.clear();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<UniqueFd> taken_;
  std::set<std::string> heard_;
};

struct Fixture {
  explicit Fixture(AcceptorLimits limits, std::chrono::milliseconds silence = 60s) {
    ListeningSockets opened = open_listening_sockets({"127.0.0.1", 0}, 20'000).value();
    port = opened.port;
    acceptor.emplace(std::move(opened.sockets), limits, Log::silent(), [this, silence](UniqueFd connection) {
      return std::make_unique<SilentPeer>(std::move(connection), silence,
                                          [this](UniqueFd spoken) { taker.take(std::move(spoken)); });
    });
  }
  UniqueFd speaker(const std::string& words) const {
    UniqueFd connection = test::connect_to(port);
    say(connection, words);
    return connection;
  }
  Taker taker;
  uint16_t port = 0;
  std::optional<AcceptorThread> acceptor;
};

int next_descriptor() {
  return UniqueFd(::dup(0)).get();
}

}  // namespace

TEST_CASE("a connection is handed over with its first bytes once its peer has sent some", "[net]") {
  Fixture fixture({.waiting_max = 8, .descriptors_max = 10'000});
  const UniqueFd first = fixture.speaker("hello");
  CHECK(fixture.taker.hears("hello"));
  const UniqueFd later = test::connect_to(fixture.port);
  const UniqueFd second = fixture.speaker("good morning");
  CHECK(fixture.taker.hears("good morning"));  // although `later` was accepted first and still waits
  say(later, "good day");
  CHECK(fixture.taker.hears("good day"));
}

TEST_CASE("a silent connection is closed after the time limit", "[net]") {
  Fixture fixture({.waiting_max = 8, .descriptors_max = 10'000}, 50ms);
  CHECK(is_closed_within(test::connect_to(fixture.port), kPatience));
}

TEST_CASE("the oldest silent connections are closed if there are too many", "[net]") {
  Fixture fixture({.waiting_max = 8, .descriptors_max = 10'000});
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 100; i++) silent.push_back(test::connect_to(fixture.port));
  for (size_t i = 0; i < 92; i++) CHECK(is_closed_within(silent[i], kPatience));
  for (size_t i = 92; i < 100; i++) {
    say(silent[i], std::to_string(i));
    CHECK(fixture.taker.hears(std::to_string(i)));
  }
}

TEST_CASE("connections are refused while too few file descriptors are free", "[net]") {
  Fixture fixture({.waiting_max = 8, .descriptors_max = 0});
  CHECK(is_closed_within(fixture.speaker("hello"), kPatience));
  CHECK(is_closed_within(test::connect_to(fixture.port), kPatience));
  Fixture roomy({.waiting_max = 8, .descriptors_max = next_descriptor() + 20});
  std::vector<UniqueFd> speakers;
  while (speakers.size() < 20) speakers.push_back(roomy.speaker("hello"));
  CHECK(is_closed_within(speakers.back(), kPatience));
  roomy.taker.drop_all();
  speakers.clear();
  const UniqueFd last = roomy.speaker("good evening");
  CHECK(roomy.taker.hears("good evening"));
}

TEST_CASE("an acceptor's destructor closes its port and the silent connections", "[net]") {
  Fixture fixture({.waiting_max = 8, .descriptors_max = 10'000});
  const UniqueFd silent = test::connect_to(fixture.port);
  const UniqueFd speaker = fixture.speaker("hello");
  REQUIRE(fixture.taker.hears("hello"));
  fixture.acceptor.reset();
  CHECK(is_closed_within(silent, kPatience));
  CHECK_FALSE(is_closed_within(speaker, 0ms));
  CHECK_THROWS(test::connect_to(fixture.port));
}

TEST_CASE("a port in use is an error, and 0.0.0.0 listens on IPv4 and IPv6", "[net]") {
  const ListeningSockets first = open_listening_sockets({"127.0.0.1", 0}, 20'000).value();
  CHECK(open_listening_sockets({"127.0.0.1", first.port}, 20'000).error() == EADDRINUSE);
  CHECK(open_listening_sockets({"192.0.2.1", 0}, 20'000).error() == EADDRNOTAVAIL);
  CHECK(open_listening_sockets({"no-such-host.invalid", 0}, 20'000).error() == EADDRNOTAVAIL);
  const ListeningSockets all = open_listening_sockets({"0.0.0.0", 0}, 20'000).value();
  CHECK(test::connect_to(all.port).open());
}

}  // namespace dtrain::net
