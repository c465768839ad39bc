// Pipes between workers and servers in one process, with faults drawn from a seed. The payload of a message is read
// from its original memory upon delivery, as a network card would, so that memory that is released too early is
// noticed.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "kvstore/wire/transport.h"

namespace dtrain::test {

struct NetworkFaults {
  uint64_t seed = 1;
  int duplicate_percent = 0;  // of messages: delivered a second time later
  bool reorder = false;       // across slices; messages of one slice keep their order
  int corrupt_percent = 0;    // of messages with a payload: one bit is flipped
  int breaks = 0;             // of each link, at random times: messages under way are lost, then the link works again
};

// A link is one worker's pipe to one server. It has one thread, which delivers in both directions.
class MemoryLink : public std::enable_shared_from_this<MemoryLink> {
 public:
  MemoryLink(kvstore::ServerEvents& server, uint32_t server_rank, uint32_t worker, const NetworkFaults& network_faults)
      : server_(server),
        server_rank_(server_rank),
        faults_(network_faults),
        random_(network_faults.seed, Use::kTest, worker, server_rank),
        breaks_left_(network_faults.breaks) {}

  void start(kvstore::ClientEvents& client) {
    client_ = &client;
    server_end_ = std::make_shared<End>(weak_from_this(), &MemoryLink::down_, 0);
    thread_ = std::thread([this] { deliver_all(); });
  }
  std::shared_ptr<kvstore::Pipe> worker_end() {
    return std::make_shared<End>(weak_from_this(), &MemoryLink::up_, std::nullopt);
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  uint64_t duplicates() const { return duplicates_; }
  uint64_t breaks() const { return generation_; }
  uint64_t corrupted() const { return corrupted_; }

 private:
  struct Item {
    kvstore::Message message;
    std::vector<std::byte> copy;  // a copy of the payload, whose own memory may be in use again upon delivery
    bool is_copy = false;
    bool is_again = false;
  };
  using Queue = std::deque<Item>;

  class End final : public kvstore::Pipe {
   public:
    End(std::weak_ptr<MemoryLink> link, Queue MemoryLink::*queue, std::optional<uint64_t> generation)
        : link_(std::move(link)), queue_(queue), generation_(generation) {}
    void send(kvstore::Message message) override {
      if (const auto link = link_.lock()) link->put(queue_, generation_, std::move(message));
    }

   private:
    std::weak_ptr<MemoryLink> link_;
    Queue MemoryLink::*queue_;
    std::optional<uint64_t> generation_;  // of the server's end: messages to a broken pipe are discarded
  };

  void put(Queue MemoryLink::*queue, std::optional<uint64_t> generation, kvstore::Message message) {
    {
      const std::lock_guard lock(mutex_);
      if (generation && *generation != generation_) return;
      Item item{std::move(message), {}, false, false};
      // A message that is sent twice around a break may be read after its answer, when its memory is in use again
      // (wire/message.h). The receiver drops it. The copy keeps ThreadSanitizer from reporting a race.
      if (faults_.breaks > 0) {
        item.copy.assign(item.message.payload.begin(), item.message.payload.end());
        item.is_copy = true;
      }
      (this->*queue).push_back(std::move(item));
    }
    wake_.notify_one();
  }

  void deliver_all() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stop_ || !up_.empty() || !down_.empty(); });
      if (stop_) return;
      if (breaks_left_ > 0 && random_.below(20) == 0) {
        break_link(lock);
        continue;
      }
      const bool is_up = down_.empty() || (!up_.empty() && random_.below(2) == 0);
      deliver_one(is_up ? up_ : down_, is_up, lock);
    }
  }

  void break_link(std::unique_lock<std::mutex>& lock) {
    breaks_left_--;
    generation_++;
    up_.clear();
    down_.clear();
    server_end_ = std::make_shared<End>(weak_from_this(), &MemoryLink::down_, generation_);
    lock.unlock();
    client_->on_reconnected(server_rank_);
    lock.lock();
  }

  // A random message that no other message of its slice precedes.
  size_t choose(const Queue& queue) {
    if (!faults_.reorder) return 0;
    const auto at = static_cast<size_t>(random_.below(static_cast<int64_t>(queue.size())));
    for (size_t i = 0; i < at; i++) {
      if (slice_of(queue[i].message.head) == slice_of(queue[at].message.head)) return i;
    }
    return at;
  }

  void deliver_one(Queue& queue, bool is_up, std::unique_lock<std::mutex>& lock) {
    const size_t at = choose(queue);
    Item item = std::move(queue[at]);
    queue.erase(queue.begin() + static_cast<ptrdiff_t>(at));
    const std::span<const std::byte> payload =
        item.is_copy ? std::span<const std::byte>(item.copy) : item.message.payload;
    if (!item.is_again && random_.below(100) < faults_.duplicate_percent) {
      duplicates_++;
      Item again{{item.message.head}, {payload.begin(), payload.end()}, true, true};
      // After all messages that wait now.
      queue.push_back(std::move(again));
    }
    std::vector<std::byte> damaged;
    const bool is_damaged =
        faults_.corrupt_percent > 0 && !payload.empty() && random_.below(100) < faults_.corrupt_percent;
    if (is_damaged) {
      corrupted_++;
      damaged.assign(payload.begin(), payload.end());
      damaged[static_cast<size_t>(random_.below(static_cast<int64_t>(damaged.size())))] ^= std::byte{16};
    }
    const std::vector<std::span<const std::byte>> pieces = cut(is_damaged ? damaged : payload);
    const std::shared_ptr<kvstore::Pipe> peer = server_end_;
    lock.unlock();
    check_sizes(item.message.head, payload.size());
    if (is_up) {
      server_.on_message(peer, item.message.head, pieces);
    } else {
      client_->on_message(server_rank_, item.message.head, pieces);
    }
    item = {};
    lock.lock();
  }

  static void check_sizes(const kvstore::Head& head, size_t payload_bytes) {
    DT_CHECK(payload_bytes <= kvstore::kPayloadBytesMax, "{} bytes are too many for a message", payload_bytes);
    const auto* header = std::get_if<kvstore::Header>(&head);
    if (header == nullptr) return;
    const auto parsed = kvstore::parse_header(std::as_bytes(std::span(header, 1)), payload_bytes);
    DT_CHECK(parsed.has_value(), "a message that its receiver would not take");
  }

  // Cuts anywhere, even inside a number.
  std::vector<std::span<const std::byte>> cut(std::span<const std::byte> payload) {
    std::vector<std::span<const std::byte>> pieces;
    while (!payload.empty()) {
      const auto size = static_cast<size_t>(1 + random_.below(static_cast<int64_t>(payload.size())));
      pieces.push_back(payload.first(size));
      payload = payload.subspan(size);
    }
    return pieces;
  }

  kvstore::ServerEvents& server_;
  const uint32_t server_rank_;
  const NetworkFaults faults_;
  RandomStream random_;
  int breaks_left_;
  kvstore::ClientEvents* client_ = nullptr;

  std::mutex mutex_;
  std::condition_variable wake_;
  Queue up_;
  Queue down_;
  std::shared_ptr<kvstore::Pipe> server_end_;
  uint64_t generation_ = 0;
  uint64_t duplicates_ = 0;
  uint64_t corrupted_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

class MemoryNetwork {
 public:
  MemoryNetwork(const std::vector<kvstore::ServerEvents*>& servers, uint32_t workers,
                const NetworkFaults& network_faults) {
    for (uint32_t w = 0; w < workers; w++) {
      links_.emplace_back();
      for (uint32_t s = 0; s < servers.size(); s++) {
        links_.back().push_back(std::make_shared<MemoryLink>(*servers[s], s, w, network_faults));
      }
    }
  }
  ~MemoryNetwork() { stop(); }
  void stop() {
    for (auto& of_worker : links_) {
      for (auto& link : of_worker) link->stop();
    }
  }

  // The worker's pipes, one per server. From now on they deliver to `client`.
  std::vector<std::shared_ptr<kvstore::Pipe>> connect(uint32_t worker, kvstore::ClientEvents& client) {
    std::vector<std::shared_ptr<kvstore::Pipe>> pipes;
    for (auto& link : links_[worker]) {
      pipes.push_back(link->worker_end());
      link->start(client);
    }
    return pipes;
  }
  // Call these after stop().
  uint64_t duplicates() const {
    uint64_t sum = 0;
    for (const auto& of_worker : links_) {
      for (const auto& link : of_worker) sum += link->duplicates();
    }
    return sum;
  }
  uint64_t breaks() const {
    uint64_t sum = 0;
    for (const auto& of_worker : links_) {
      for (const auto& link : of_worker) sum += link->breaks();
    }
    return sum;
  }
  uint64_t corrupted() const {
    uint64_t sum = 0;
    for (const auto& of_worker : links_) {
      for (const auto& link : of_worker) sum += link->corrupted();
    }
    return sum;
  }

 private:
  std::vector<std::vector<std::shared_ptr<MemoryLink>>> links_;  // by worker, by server
};

}  // namespace dtrain::test
