#include "kvstore/wire/faults.h"

#include <algorithm>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/random.h"
#include "base/thread.h"

namespace dtrain::kvstore {
namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using std::chrono::milliseconds;

// A loss is reported to the store when no message has moved for this time, or for longer after reports that brought no
// answer. After each report the store sends all unanswered requests again. With a large model some message is lost each
// time, and the answers may have to wait for slow workers.
constexpr milliseconds kQuietFirst{20};
constexpr milliseconds kQuietLast{1'000};
constexpr milliseconds longer(milliseconds quiet) {
  return std::min(quiet * 3 / 2, kQuietLast);
}

Clock::duration to_clock(FaultDelay delay) {
  return std::chrono::duration_cast<Clock::duration>(delay);
}

// Returns a copy that owns its memory, so that nothing else changes it.
Message copy_of(const Head& head, Pieces pieces) {
  auto bytes = std::make_shared<std::vector<std::byte>>();
  bytes->reserve(byte_count(pieces));
  for (const auto piece : pieces) bytes->insert(bytes->end(), piece.begin(), piece.end());
  return {head, *bytes, bytes};
}

Message owned(Message message) {
  if (message.owner != nullptr || message.payload.empty()) return message;
  return copy_of(message.head, {&message.payload, 1});
}

}  // namespace

// All random numbers are drawn for every message, so a higher loss rate does not change the delays of other messages.
Fate fate_of(const Faults& faults, Connection connection, Direction direction, uint64_t n) {
  const uint64_t stream = (uint64_t{connection.worker} << 32 | connection.server) << 1 |
                          static_cast<uint64_t>(direction == Direction::kToWorker);
  RandomStream random(faults.seed, Use::kFaults, stream, n);
  const bool is_lost = random.uniform() < faults.drop;
  const bool is_doubled = random.uniform() < faults.dup;
  Fate fate{.copies = is_lost ? 0 : is_doubled ? 2 : 1};
  for (FaultDelay& delay : fate.delay) {
    delay = FaultDelay(random.uniform(faults.delay_min.count(), faults.delay_max.count()));
  }
  return fate;
}

// Shared with the pipes, which the store may keep after the FaultyTransport is gone.
class FaultyTransport::FaultQueue {
 public:
  class FaultyPipe final : public Pipe {
   public:
    FaultyPipe(std::shared_ptr<FaultQueue> queue, uint32_t server, bool needs_checksums)
        : queue_(std::move(queue)), server_(server), needs_checksums_(needs_checksums) {}
    void send(Message message) override { queue_->take(server_, Direction::kToServer, owned(std::move(message))); }
    bool needs_checksums() const override { return needs_checksums_; }

   private:
    std::shared_ptr<FaultQueue> queue_;
    const uint32_t server_;
    const bool needs_checksums_;
  };

  FaultQueue(uint32_t worker, const std::vector<Faults>& faults, ClientEvents& store, OnFailure on_failure)
      : worker_(worker), store_(store), on_failure_(std::move(on_failure)), faults_(faults), links_(faults.size()) {
    if (std::ranges::any_of(faults_, [](const Faults& of_server) { return of_server.any(); })) {
      thread_ = std::thread([this] { run(); });
    }
  }

  void close() DT_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      closed_ = true;
      items_.clear();
      for (Link& link : links_) link.pipe = nullptr;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

  [[nodiscard]] bool has_faults(uint32_t server) const { return faults_[server].any(); }
  [[nodiscard]] size_t servers() const { return faults_.size(); }

  void set_pipe(uint32_t server, std::shared_ptr<Pipe> pipe) {
    const MutexLock lock(mutex_);
    links_[server].pipe = std::move(pipe);
  }

  void take(uint32_t server, Direction direction, const Message& message) {
    const MutexLock lock(mutex_);
    if (closed_) return;
    Link& link = links_[server];
    Track& track = link.tracks[{direction, slice_of(message.head)}];
    const Fate fate =
        fate_of(faults_[server], {worker_, server}, direction, link.count[static_cast<size_t>(direction)]++);
    const Time now = Clock::now();
    link.moved = now;
    counts_.messages++;
    changed_.notify_all();
    if (track.is_lost || fate.copies == 0) {
      track.is_lost = link.lost = true;
      counts_.lost++;
      return;
    }
    if (fate.copies == 2) counts_.doubled++;
    for (int copy = 0; copy < fate.copies; copy++) {
      track.due = std::max(track.due, now + to_clock(fate.delay[static_cast<size_t>(copy)]));
      items_.emplace(std::pair(track.due, next_item_++), Item{server, direction, message});
      link.held++;
    }
  }

  // The transport's own connection broke, so the messages in flight are lost.
  void on_reconnected(uint32_t server) {
    {
      const MutexLock lock(mutex_);
      std::erase_if(items_, [&](const auto& entry) { return entry.second.server == server; });
      links_[server].held = 0;
      links_[server].quiet = kQuietFirst;
      forget_loss(links_[server]);
    }
    store_.on_reconnected(server);
  }

  [[nodiscard]] FaultCounts counts() const {
    const MutexLock lock(mutex_);
    return counts_;
  }
  [[nodiscard]] ClientEvents& store() const { return store_; }

 private:
  struct Item {
    uint32_t server = 0;
    Direction direction = Direction::kToServer;
    Message message;
  };
  // The messages of one slice in one direction.
  struct Track {
    Time due = {};  // delivery time of its last message
    bool is_lost = false;
  };
  using TrackId = std::pair<Direction, SliceId>;
  struct Link {
    std::shared_ptr<Pipe> pipe = nullptr;
    std::array<uint64_t, 2> count = {};  // number of messages in each direction
    std::map<TrackId, Track> tracks = {};
    size_t held = 0;    // number of items of this link that wait for delivery
    bool lost = false;  // a message was lost, and the store has not been notified
    Time moved = {};    // when a message last came or went
    milliseconds quiet = kQuietFirst;
  };

  void run() {
    name_thread("faults");
    auto outcome = catching([this]() -> Result<> {
      const MutexLock lock(mutex_);
      while (!closed_) {
        if (!deliver_next() && !tell_of_loss()) wait();
      }
      return {};
    });
    if (!outcome) on_failure_(outcome.error());
  }

  // Returns false if no message is due.
  bool deliver_next() DT_REQUIRES(mutex_) {
    if (items_.empty() || items_.begin()->first.first > Clock::now()) return false;
    const auto next = items_.extract(items_.begin());
    Item& item = next.mapped();
    Link& link = links_[item.server];
    link.held--;
    link.moved = Clock::now();
    if (item.direction == Direction::kToWorker) link.quiet = kQuietFirst;
    const std::shared_ptr<Pipe> pipe = link.pipe;
    const MutexUnlock unlocked(mutex_);
    if (item.direction == Direction::kToServer) {
      pipe->send(std::move(item.message));
    } else {
      store_.on_message(item.server, item.message.head, {&item.message.payload, 1});
    }
    return true;
  }

  bool tell_of_loss() DT_REQUIRES(mutex_) {
    const Time now = Clock::now();
    const auto link = std::ranges::find_if(links_, [&](const Link& l) { return loss_due(l) && *loss_due(l) <= now; });
    if (link == links_.end()) return false;
    forget_loss(*link);
    link->quiet = longer(link->quiet);
    counts_.breaks++;
    const auto server = static_cast<uint32_t>(link - links_.begin());
    const MutexUnlock unlocked(mutex_);
    store_.on_reconnected(server);
    return true;
  }

  // When a loss must be reported to the store. Nullopt if nothing was lost or messages are still in flight.
  static std::optional<Time> loss_due(const Link& link) {
    if (!link.lost || link.held > 0) return std::nullopt;
    return link.moved + link.quiet;
  }

  static void forget_loss(Link& link) {
    link.lost = false;
    for (auto& [id, track] : link.tracks) track.is_lost = false;
  }

  void wait() DT_REQUIRES(mutex_) {
    std::optional<Time> due;
    if (!items_.empty()) due = items_.begin()->first.first;
    for (const Link& link : links_) {
      if (const auto of_link = loss_due(link)) due = std::min(due.value_or(*of_link), *of_link);
    }
    if (due) {
      changed_.wait_until(mutex_, *due);
    } else {
      changed_.wait(mutex_);
    }
  }

  const uint32_t worker_;
  ClientEvents& store_;
  const OnFailure on_failure_;
  const std::vector<Faults> faults_;  // the faults to inject for each server, indexed by server

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Link> links_ DT_GUARDED_BY(mutex_);  // the state of each connection, indexed by server
  // Messages to deliver, sorted by due time, then by arrival.
  std::map<std::pair<Time, uint64_t>, Item> items_ DT_GUARDED_BY(mutex_);
  uint64_t next_item_ DT_GUARDED_BY(mutex_) = 0;
  FaultCounts counts_ DT_GUARDED_BY(mutex_);
  bool closed_ DT_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

FaultyTransport::FaultyTransport(uint32_t worker, const std::vector<Faults>& faults, ClientEvents& store,
                                 OnFailure on_failure)
    : queue_(std::make_shared<FaultQueue>(worker, faults, store, std::move(on_failure))) {}

FaultyTransport::~FaultyTransport() {
  queue_->close();
}

std::vector<std::shared_ptr<Pipe>> FaultyTransport::wrap(std::span<const std::shared_ptr<Pipe>> pipes) {
  DT_CHECK(pipes.size() == queue_->servers(), "there are {} pipes, but faults for {}", pipes.size(), queue_->servers());
  std::vector<std::shared_ptr<Pipe>> wrapped(pipes.begin(), pipes.end());
  for (uint32_t server = 0; server < pipes.size(); server++) {
    if (!queue_->has_faults(server)) continue;
    queue_->set_pipe(server, pipes[server]);
    wrapped[server] = std::make_shared<FaultQueue::FaultyPipe>(queue_, server, pipes[server]->needs_checksums());
  }
  return wrapped;
}

void FaultyTransport::on_message(uint32_t server, const Head& head, Pieces payload) {
  if (!queue_->has_faults(server)) return queue_->store().on_message(server, head, payload);
  queue_->take(server, Direction::kToWorker, copy_of(head, payload));
}

void FaultyTransport::on_reconnected(uint32_t server) {
  queue_->on_reconnected(server);
}

FaultCounts FaultyTransport::counts() const {
  return queue_->counts();
}

}  // namespace dtrain::kvstore
