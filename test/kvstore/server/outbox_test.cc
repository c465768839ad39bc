// Tests how answers leave a slice: outside its lock, in order, with a checksum that is computed once.
#include "kvstore/server/outbox.h"

#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "base/crc32c.h"
#include "kvstore/conversation.h"
#include "support/catch.h"
#include "support/patience.h"

namespace dtrain::kvstore {
namespace {

using namespace std::chrono_literals;
using test::Conversation;

// Notes the requests that its messages answer. The first message of the pipe stays in send() until it is let go.
class SlowPipe final : public Pipe {
 public:
  explicit SlowPipe(std::vector<uint64_t>& sent) : sent_(sent) {}
  void send(Message message) override {
    if (is_first_) {
      is_first_ = false;
      entered.set_value();
      gate.get_future().wait();
    }
    sent_.push_back(std::get<Header>(message.head).request);
  }
  std::promise<void> entered;
  std::promise<void> gate;

 private:
  std::vector<uint64_t>& sent_;
  bool is_first_ = true;
};

Header numbered(uint64_t request) {
  Header header;
  header.kind = Kind::kAnswer;
  header.request = request;
  return header;
}

// Asks the shard, which takes the slices' locks, while it sends.
class AskingPipe final : public Pipe {
 public:
  explicit AskingPipe(const Shard& shard) : shard_(shard) {}
  void send(Message message) override {
    auto counts = std::async(std::launch::async, [this] { return shard_.counts(); });
    lock_was_free = counts.wait_for(dtrain::test::kPatience) == std::future_status::ready;
    last = std::get<Header>(message.head);
  }
  Header last;
  bool lock_was_free = false;

 private:
  const Shard& shard_;
};

}  // namespace

TEST_CASE("answers are sent while the slice's lock is free", "[kvstore]") {
  Conversation talk(1);
  talk.assign(0, {1, 1, 1, 1});
  const auto pipe = std::make_shared<AskingPipe>(*talk.shard);
  const auto request = [&](Kind kind, uint64_t step, std::span<const float> values) {
    const Message message = make_message(Conversation::header(kind, 0, 0, step, 1), values, nullptr, true);
    pipe->lock_was_free = false;
    talk.shard->on_message(pipe, message.head, {&message.payload, 1});
    CHECK(pipe->last.request == std::get<Header>(message.head).request);
    CHECK(pipe->lock_was_free);
  };
  request(Kind::kPush, 0, std::vector<float>{1, 2, 3, 4});
  request(Kind::kPull, 1, {});
  request(Kind::kPush, 7, std::vector<float>{1, 2, 3, 4});  // is refused
  CHECK(pipe->last.status == Status::kRejected);
}

TEST_CASE("answers are sent in the order of adding, by one thread at a time", "[kvstore]") {
  Outbox outbox;
  std::vector<uint64_t> sent;  // only one thread at a time may write to it
  const auto pipe = std::make_shared<SlowPipe>(sent);
  outbox.add(pipe, numbered(1));
  outbox.add(pipe, numbered(2));
  std::thread slow([&] { outbox.send_all(); });
  pipe->entered.get_future().wait();
  outbox.add(pipe, numbered(3));
  outbox.send_all();  // leaves it to the other thread
  CHECK(sent.empty());
  pipe->gate.set_value();
  slow.join();
  CHECK(sent == std::vector<uint64_t>{1, 2, 3});
  outbox.add(pipe, numbered(4));
  outbox.send_all();
  CHECK(sent.back() == 4);
}

TEST_CASE("the checksum of a version is computed once, for all who read it", "[kvstore]") {
  VersionedArray array(2);
  const auto checksum_of = [](const std::vector<float>& values) { return crc32c(std::as_bytes(std::span(values))); };
  const std::span<float> values = array.writable();
  values[0] = 1;
  CHECK(array.lend().checksum() == checksum_of({1, 0}));
  values[0] = 2;  // no call of writable(): a second computation would notice
  CHECK(array.lend().checksum() == checksum_of({1, 0}));

  const LentValues reader = array.lend();
  array.writable()[1] = 3;  // a copy, because of the reader
  CHECK(array.lend().checksum() == checksum_of({2, 3}));
  CHECK(reader.checksum() == checksum_of({1, 0}));
  array.writable()[1] = 4;
  CHECK(array.lend().checksum() == checksum_of({2, 4}));
}

}  // namespace dtrain::kvstore
