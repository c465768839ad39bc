// A conversation with one shard, message by message.
#pragma once

#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <vector>

#include "kvstore/server/shard.h"
#include "kvstore/wire/chunks.h"

namespace dtrain::test {

// A peer that records the messages sent to it.
class Peer : public kvstore::Pipe {
 public:
  struct Received {
    kvstore::Header header;
    std::vector<float> values;
  };
  void send(kvstore::Message message) override {
    Received received{message.header, std::vector<float>(message.payload.size() / sizeof(float))};
    const std::span<const std::byte> pieces[] = {message.payload};
    kvstore::copy_floats(pieces, received.values);
    REQUIRE(payload_intact(message.header, pieces));
    inbox.push_back(std::move(received));
  }
  Received take() {
    REQUIRE_FALSE(inbox.empty());
    Received first = inbox.front();
    inbox.pop_front();
    return first;
  }
  std::deque<Received> inbox;
};

// Delivers messages to a shard as if they had been received.
class Loopback : public kvstore::Pipe {
 public:
  Loopback(kvstore::Shard& shard, std::shared_ptr<Peer> peer) : shard_(shard), peer_(std::move(peer)) {}
  void send(kvstore::Message message) override {
    const std::span<const std::byte> pieces[] = {message.payload};
    shard_.on_message(peer_, message.header, pieces);
  }

 private:
  kvstore::Shard& shard_;
  std::shared_ptr<Peer> peer_;
};

// Key 0: four elements. Key 1: one chunk and a half. Key 2: a statistic of four elements.
constexpr uint64_t kBig = kvstore::kChunkElements + kvstore::kChunkElements / 2;

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

  static kvstore::Header header(kvstore::Kind kind, uint32_t rank, uint32_t key, uint64_t step, uint64_t version,
                                uint32_t samples) {
    kvstore::Header header;
    header.kind = kind;
    header.rank = static_cast<uint16_t>(rank);
    header.incarnation = 100 + rank;
    header.key = key;
    header.step = step;
    header.version = version;
    header.samples = samples;
    return header;
  }
  void send(const kvstore::Header& header, const std::vector<float>& values = {}) {
    Loopback pipe(*shard, peers.at(header.rank));
    if (values.empty()) return pipe.send({header, {}, nullptr});
    kvstore::send_values(pipe, header, values, nullptr, true);
  }
  void assign(uint32_t key, const std::vector<float>& values, uint64_t version = 0, uint64_t count = 1) {
    send(header(kvstore::Kind::kAssign, 0, key, count, version, 0), values);
    CHECK(peers[0]->take().header.status == kvstore::Status::kOk);
  }
  void push(uint32_t rank, uint32_t key, uint64_t step, const std::vector<float>& values, uint32_t samples = 1) {
    send(header(kvstore::Kind::kPushPull, rank, key, step, step + 1, samples), values);
  }
  kvstore::Status status_of(uint32_t rank) { return peers[rank]->take().header.status; }

  std::unique_ptr<kvstore::Shard> shard;
  std::vector<std::shared_ptr<Peer>> peers;
};

}  // namespace dtrain::test
