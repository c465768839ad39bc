// A conversation with one shard, message by message.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "kvstore/server/shard.h"
#include "support/catch.h"

namespace dtrain::test {

// A peer that records the messages sent to it.
class Peer : public kvstore::Pipe {
 public:
  struct Received {
    kvstore::Header header;                         // of a data message
    kvstore::ControlAnswer control;                 // of a control message
    kvstore::Status status = kvstore::Status::kOk;  // of either
    std::vector<float> values;
  };
  void send(kvstore::Message message) override {
    Received received;
    received.values.resize(message.payload.size() / sizeof(float));
    const std::span<const std::byte> pieces[] = {message.payload};
    kvstore::copy_floats(pieces, received.values);
    if (const auto* control = std::get_if<kvstore::ControlAnswer>(&message.head)) {
      received.control = *control;
      received.status = control->status;
      REQUIRE(kvstore::payload_intact(control->payload_crc, pieces));
      REQUIRE((control->payload_crc != 0) == (has_checksums && !received.values.empty()));
    } else {
      received.header = std::get<kvstore::Header>(message.head);
      received.status = received.header.status;
      REQUIRE(kvstore::payload_intact(received.header.payload_crc, pieces));
      REQUIRE((received.header.payload_crc != 0) == (has_checksums && !received.values.empty()));
    }
    inbox.push_back(std::move(received));
  }
  Received take() {
    REQUIRE_FALSE(inbox.empty());
    Received first = inbox.front();
    inbox.pop_front();
    return first;
  }
  bool needs_checksums() const override { return has_checksums; }
  std::deque<Received> inbox;
  bool has_checksums = true;
};

// Delivers messages to a shard as if they had been received.
class Loopback : public kvstore::Pipe {
 public:
  Loopback(kvstore::Shard& shard, std::shared_ptr<Peer> peer) : shard_(shard), peer_(std::move(peer)) {}
  void send(kvstore::Message message) override {
    const std::span<const std::byte> pieces[] = {message.payload};
    shard_.on_message(peer_, message.head, pieces);
  }

 private:
  kvstore::Shard& shard_;
  std::shared_ptr<Peer> peer_;
};

// Key 0: four elements. Key 1: the largest slice. Key 2: a statistic of four elements. Key 3: another server's.
constexpr uint64_t kBig = kvstore::kSliceElementsMax;

inline kvstore::ShardOptions options_for(const sync::Policy& policy) {
  kvstore::ShardOptions options;
  options.placement = {{0, 0, 0, 4, 0}, {1, 0, 0, kBig, 0}, {2, 0, 0, 4, 0}, {3, 0, 0, 4, 1}};
  options.parameters = {{}, {}};
  options.rule.optimizer.momentum = 0;
  options.rule.optimizer.weight_decay = 0;
  options.rule.schedule.base = -1;  // w += sum / samples
  options.policy = policy;
  return options;
}

struct Conversation {
  explicit Conversation(const kvstore::ShardOptions& options) : shard(kvstore::Shard::create(options).value()) {
    for (size_t w = 0; w < options.policy.group_of.size(); w++) peers.push_back(std::make_shared<Peer>());
  }
  explicit Conversation(uint32_t workers) : Conversation(options_for(sync::bsp(workers))) {}

  static kvstore::Header header(kvstore::Kind kind, uint32_t rank, uint32_t key, uint64_t step, uint32_t samples = 0) {
    kvstore::Header header;
    header.kind = kind;
    header.rank = rank;
    header.incarnation = 100 + rank;
    // Larger than that of the step before; a refresh comes before the push of its step.
    header.request = 1000 * (step + 1) - (kind == kvstore::Kind::kRefresh ? 500 : 0);
    header.key = key;
    header.step = step;
    header.samples = samples;
    return header;
  }
  void send(const kvstore::Header& header, const std::vector<float>& values = {}) {
    Loopback(*shard, peers.at(header.rank)).send(make_message(header, values, nullptr, true));
  }
  template <class What>
  void control(uint32_t rank, uint32_t key, uint64_t request, const What& what, const std::vector<float>& values = {}) {
    const kvstore::ControlRequest head{
        .id = {key, 0}, .rank = rank, .incarnation = 100 + rank, .request = request, .what = what};
    Loopback(*shard, peers.at(rank)).send(make_message(head, values, nullptr, true));
  }
  void assign(uint32_t key, const std::vector<float>& values, kvstore::Counters counters = {}) {
    control(0, key, 1, kvstore::AssignValues{counters}, values);
    CHECK(status_of(0) == kvstore::Status::kOk);
  }
  void push(uint32_t rank, uint32_t key, uint64_t step, const std::vector<float>& values, uint32_t samples = 1) {
    send(header(kvstore::Kind::kPush, rank, key, step, samples), values);
  }
  void pull(uint32_t rank, uint32_t key, uint64_t step) { send(header(kvstore::Kind::kPull, rank, key, step)); }
  kvstore::Status status_of(uint32_t rank) { return peers[rank]->take().status; }

  std::unique_ptr<kvstore::Shard> shard;
  std::vector<std::shared_ptr<Peer>> peers;
};

}  // namespace dtrain::test
