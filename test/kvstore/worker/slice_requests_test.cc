#include "kvstore/worker/slice_requests.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/patience.h"

using namespace dtrain;
using namespace dtrain::kvstore;

namespace {

// Keeps each call of send() from returning until it is let through, once and for all.
class HeldPipe final : public Pipe {
 public:
  void send(Message message) override {
    std::unique_lock lock(mutex_);
    sent_.push_back(std::get<Header>(message.head));
    senders_.push_back(std::this_thread::get_id());
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
  }
  [[nodiscard]] bool needs_checksums() const override { return needs_checksums_; }
  void need_no_checksums() { needs_checksums_ = false; }
  // The threads that have called send().
  std::vector<std::thread::id> senders() {
    const std::lock_guard lock(mutex_);
    return senders_;
  }
  void let_through() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  // Waits until send() has been called `count` times, and returns the headers.
  std::vector<Header> sent(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return sent_.size() >= count; });
    return sent_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Header> sent_;
  std::vector<std::thread::id> senders_;
  bool is_open_ = false;
  std::atomic<bool> needs_checksums_ = true;
};

constexpr size_t kCount = 100'000;  // so many that the caller does not send them

// Two slices on a server each.
struct Setting {
  Setting() { requests.attach({pipes[0], pipes[1]}); }
  ~Setting() {
    for (const auto& pipe : pipes) pipe->let_through();
  }

  Result<> push(size_t slice, size_t group = 0) {
    Header header;
    header.kind = Kind::kPush;
    return requests.send(slice, {.head = header, .values = values, .into = answers[slice], .group = group});
  }
  void answer(uint32_t slice, const Header& request) {
    Header header = request;
    header.kind = Kind::kAnswer;
    header.step = request.step + 1;
    header.payload_crc = 0;
    const std::span<const std::byte> payload = std::as_bytes(std::span(weights));
    requests.on_message(slice, header, {&payload, 1});
  }

  Waits waits;
  const std::vector<float> values = std::vector<float>(kCount, 1), weights = std::vector<float>(kCount, 3);
  std::array<std::vector<float>, 2> answers = {std::vector<float>(kCount), std::vector<float>(kCount)};
  const std::array<std::shared_ptr<HeldPipe>, 2> pipes = {std::make_shared<HeldPipe>(), std::make_shared<HeldPipe>()};
  SliceRequests requests{
      {.rank = 3,
       .incarnation = 7,
       .placement = {{.key = 0, .count = kCount, .server = 0}, {.key = 1, .count = kCount, .server = 1}},
       .groups = 2},
      waits};
};

}  // namespace

TEST_CASE("a request is sent by another thread than the one that makes it", "[kvstore]") {
  Setting s;
  REQUIRE(s.push(0));  // returns although the pipe holds the message
  const Header request = s.pipes[0]->sent(1).front();
  CHECK(request.rank == 3);
  CHECK(request.incarnation == 7);
  CHECK(request.element_count == kCount);
  CHECK(request.payload_crc != 0);
  s.pipes[0]->let_through();
  s.answer(0, request);
  REQUIRE(s.requests.wait("weights", 0, 1));
  CHECK(s.answers[0] == s.weights);
}

TEST_CASE("messages and the bytes of their values are counted by server", "[kvstore]") {
  Setting s;
  for (const auto& pipe : s.pipes) pipe->let_through();
  REQUIRE(s.push(0));
  s.answer(0, s.pipes[0]->sent(1).front());
  REQUIRE(s.push(1));
  s.pipes[1]->sent(1);
  const std::vector<Traffic> by_server = s.requests.traffic();
  REQUIRE(by_server.size() == 2);
  CHECK(by_server[0].sent == 4 * kCount);
  CHECK(by_server[0].received == 4 * kCount);
  CHECK(by_server[0].sent_messages == 1);
  CHECK(by_server[0].received_messages == 1);
  CHECK(by_server[1].sent == 4 * kCount);
  CHECK(by_server[1].received_messages == 0);
  CHECK(s.requests.times().traffic->sent == 8 * kCount);
  CHECK(s.requests.times().traffic->received == 4 * kCount);
}

// The thread of the requests is held in the first pipe.
TEST_CASE("a thread that waits for answers sends what has not been sent", "[kvstore]") {
  Setting s;
  REQUIRE(s.push(0));
  s.pipes[0]->sent(1);
  REQUIRE(s.push(1));
  CHECK(s.requests.counts().open == 2);
  CHECK(s.requests.counts().unsent == 1);
  Result<> waited;
  std::thread waiter([&] { waited = s.requests.wait("weights", 0, 1); });
  const Header second = s.pipes[1]->sent(1).front();
  for (const auto& pipe : s.pipes) pipe->let_through();
  s.answer(0, s.pipes[0]->sent(1).front());
  s.answer(1, second);
  waiter.join();
  CHECK(waited);
  CHECK(s.requests.counts().open == 0);
  CHECK(s.requests.counts().unsent == 0);
}

// A wait for one bucket once had the name of another bucket's slice, or "weights: nothing" between the arrival of the
// last answer and the end of the wait.
TEST_CASE("a wait is named after what is missing of its own groups", "[kvstore]") {
  Setting s;
  for (const auto& pipe : s.pipes) pipe->let_through();
  REQUIRE(s.push(0));
  REQUIRE(s.push(1, 1));
  std::array<Result<>, 2> waited;
  std::thread weights([&] { waited[0] = s.requests.wait("weights", 1, 2); });
  const auto name = [&] {
    std::vector<OpenWait> open;
    while (open.empty()) open = s.waits.open();
    return open[0].name;
  };
  CHECK(name() == "weights: key 1 slice 0 version 1 on server 1");
  s.answer(1, s.pipes[1]->sent(1).front());
  weights.join();
  std::thread sums([&] { waited[1] = s.requests.wait("sums", 0, 1); });
  CHECK(name() == "sums: key 0 slice 0 version 1 on server 0");
  s.answer(0, s.pipes[0]->sent(1).front());
  std::set<std::string> names = {"sums: key 0 slice 0 version 1 on server 0", "sums, which have just arrived"};
  for (std::vector<OpenWait> open = s.waits.open(); !open.empty(); open = s.waits.open()) names.insert(open[0].name);
  sums.join();
  CHECK(names.size() == 2);
  CHECK(waited[0]);
  CHECK(waited[1]);
}

TEST_CASE("a request over a pipe that damages nothing has no checksum", "[kvstore]") {
  Setting s;
  s.pipes[1]->need_no_checksums();
  REQUIRE(s.push(0));
  REQUIRE(s.push(1));
  for (const auto& pipe : s.pipes) pipe->let_through();
  CHECK(s.pipes[0]->sent(1).front().payload_crc != 0);
  CHECK(s.pipes[1]->sent(1).front().payload_crc == 0);
}

TEST_CASE("a caller that has nothing else to do sends its request, and one with few values always does", "[kvstore]") {
  Setting s;
  s.pipes[0]->let_through();
  std::vector<std::thread::id> expected;
  for (const size_t count : {size_t{10}, kCount}) {
    Header header;
    header.kind = Kind::kPush;
    REQUIRE(s.requests.send(
        0,
        {.head = header, .values = std::span(s.values).first(count), .into = s.answers[0], .by_caller = count > 10}));
    expected.push_back(std::this_thread::get_id());
    CHECK(s.pipes[0]->senders() == expected);
    s.answer(0, s.pipes[0]->sent(1).back());
    REQUIRE(s.requests.wait("weights", 0, 1));
  }
}

// The caller may change the values as soon as a request is answered, so they must not be read any more. An answer can
// come that early if the connection broke and the request is sent for the second time.
TEST_CASE("an answer counts only after its request has been sent to its end", "[kvstore]") {
  Setting s;
  REQUIRE(s.push(0));
  s.answer(0, s.pipes[0]->sent(1).front());
  CHECK(s.requests.answer(0).step == 0);
  s.answer(0, s.pipes[0]->sent(1).front());  // a repeat
  s.requests.on_reconnected(0);              // nothing is left to send again
  s.pipes[0]->let_through();
  REQUIRE(s.requests.wait("weights", 0, 1));
  CHECK(s.requests.answer(0).step == 1);
  REQUIRE(s.push(0));
  CHECK(s.pipes[0]->sent(2).back().request == 2);
}

TEST_CASE("a request is sent again by one thread at a time", "[kvstore]") {
  Setting s;
  REQUIRE(s.push(0));
  s.pipes[0]->sent(1);
  for (int i = 0; i < 3; i++) s.requests.on_reconnected(0);  // while it is being sent: once more is enough
  s.pipes[0]->let_through();
  const std::vector<Header> sent = s.pipes[0]->sent(2);
  CHECK(sent[1].request == sent[0].request);
  s.answer(0, sent[0]);
  REQUIRE(s.requests.wait("weights", 0, 1));
  CHECK(s.pipes[0]->sent(2).size() == 2);
}

TEST_CASE("a failed wait returns only when no thread uses the memory of a request", "[kvstore]") {
  Setting s;
  REQUIRE(s.push(0));
  s.pipes[0]->sent(1);
  s.requests.cancel({Code::kPeerLost, "server 0 is lost", {}});
  std::atomic<bool> is_let_through = false;
  bool was_let_through = false;
  Result<> waited;
  std::thread waiter([&] {
    waited = s.requests.wait("weights", 0, 1);
    was_let_through = is_let_through;
  });
  dtrain::test::await([&] { return !s.waits.open().empty(); });
  is_let_through = true;
  s.pipes[0]->let_through();
  waiter.join();
  CHECK(was_let_through);
  CHECK(waited.error().message == "server 0 is lost");
  CHECK(s.push(1).error().message == "server 0 is lost");
}
