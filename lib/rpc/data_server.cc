#include "rpc/data_server.h"

#include <grpcpp/generic/async_generic_service.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/thread.h"
#include "rpc/channel.h"
#include "rpc/data_message.h"
#include "rpc/data_method.h"
#include "rpc/pending_call.h"
#include "rpc/server_lane.h"
#include "rpc/server_stream.h"
#include "rpc/status.h"

namespace dtrain::rpc {
namespace {

using IncomingStream = ServerStream<grpc::ByteBuffer, grpc::ByteBuffer>;

constexpr std::chrono::milliseconds kDataShutdown{500};

class RefusedStream final : public grpc::ServerGenericBidiReactor {
 public:
  explicit RefusedStream(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

template <class Number>
std::optional<Number> number(const std::string& text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Sends answers on a stream. kvstore may keep this object for longer than the stream lives.
class StreamPipe final : public kvstore::Pipe {
 public:
  StreamPipe(std::weak_ptr<IncomingStream> stream, std::shared_ptr<Outstanding> outstanding, bool needs_checksums)
      : stream_(std::move(stream)), outstanding_(std::move(outstanding)), needs_checksums_(needs_checksums) {}
  void send(kvstore::Message message) override {
    if (const auto stream = stream_.lock()) stream->send(to_buffer(std::move(message), outstanding_));
  }
  bool needs_checksums() const override { return needs_checksums_; }

 private:
  std::weak_ptr<IncomingStream> stream_;
  std::shared_ptr<Outstanding> outstanding_;
  const bool needs_checksums_;
};

constexpr uint32_t kLanesMax = 64;

struct NewestStream {
  std::shared_ptr<ServerLane> lane;
  std::weak_ptr<IncomingStream> stream;
};

struct Peer {
  uint32_t rank = 0;
  uint64_t incarnation = 0;  // 0: nobody has this rank
  std::map<uint32_t, NewestStream> lanes;
  bool is_awaited = false;  // whether a process of this rank may soon be accepted
};

class GrpcDataServer final : public DataServer, private grpc::CallbackGenericService {
 public:
  GrpcDataServer(DataServerOptions options, Waits& waits, Log log)
      : options_(std::move(options)), waits_(waits), log_(log), refusals_(std::move(log)) {}
  ~GrpcDataServer() override { close(); }

  Result<> begin() {
    DT_TRY(listener_,
           listen(
               options_.listen, options_.security, Traffic::kData, log_,
               [this](grpc::ServerBuilder& builder) { builder.RegisterCallbackGenericService(this); }, 0,
               look_ahead_of_stream(options_)),
           "starting a server");
    watch_ = std::thread([this] { watch(); });
    return {};
  }

  uint16_t port() const override { return listener_.port; }

  void serve(std::vector<uint64_t> incarnations, kvstore::ServerEvents& events,
             std::function<void(const Error&)> on_failure) override {
    const MutexLock lock(mutex_);
    events_ = &events;
    on_failure_ = std::move(on_failure);
    for (uint32_t rank = 0; rank < incarnations.size(); rank++) {
      const bool is_awaited = incarnations[rank] == kAwaited;
      peers_.push_back({rank, is_awaited ? 0 : incarnations[rank], {}, is_awaited});
    }
  }

  void close() override {
    if (listener_.server == nullptr) return;
    {
      const MutexLock lock(mutex_);
      is_closing_ = true;
      closing_.notify_all();
    }
    if (watch_.joinable()) watch_.join();
    listener_.shutdown(std::chrono::system_clock::now());
    end_streams();
    listener_.server.reset();
    // The result of wait_none() does not matter, because answers own their memory.
    (void)outstanding_->wait_none(waits_, "the workers", kDataShutdown);
  }

  void cut(uint32_t worker) override { close_streams(worker, {grpc::StatusCode::UNAVAILABLE, "cut"}); }

  void end_worker(uint32_t worker, bool returns) override {
    {
      const MutexLock lock(mutex_);
      if (worker >= peers_.size()) return;
      peers_[worker].incarnation = 0;
      peers_[worker].is_awaited = returns;
    }
    const Error why = returns ? Error{Code::kUnavailable, "this server goes back to a snapshot", {}}
                              : Error{Code::kPeerLost, "this worker counts as lost, or has left the job", {}};
    close_streams(worker, to_status(why));
  }

  // The new process gets new lanes, because the old ones may still be handling messages of the process before it.
  void admit_worker(uint32_t worker, uint64_t incarnation) override {
    const MutexLock lock(mutex_);
    if (worker < peers_.size()) peers_[worker] = {worker, incarnation, {}, false};
  }

 private:
  class Events final : public IncomingStream::Events {
   public:
    // `is_here`: whether the worker runs on this host.
    Events(GrpcDataServer& server, const kvstore::Sender& worker, std::shared_ptr<ServerLane> lane, bool is_here)
        : token_(server.tracker_),
          server_(server),
          worker_(worker),
          lane_(std::move(lane)),
          number_(lane_->open()),
          is_here_(is_here) {}

    void on_message(IncomingStream& stream, grpc::ByteBuffer& buffer) override {
      const Result<> outcome = catching(
          [&]() -> Result<> {
            token_.run([&] { react(stream, buffer); });
            return {};
          },
          "a gradient or weights");
      if (outcome) return;
      stream.close({grpc::StatusCode::INTERNAL, outcome.error().message});
      server_.failed(outcome.error());
    }
    void on_end() override {}

   private:
    void react(IncomingStream& stream, grpc::ByteBuffer& buffer) {
      if (pipe_ == nullptr) pipe_ = std::make_shared<StreamPipe>(stream.shared(), server_.outstanding_, !is_here_);
      const std::optional<kvstore::Head> head = reader_.read(buffer);
      if (!head || sender_of(*head) != worker_) {
        server_.log_.warn(
            "the stream of worker {} is closed, because it contained bytes that are not a message of this worker",
            worker_.rank);
        return stream.close(
            {grpc::StatusCode::INTERNAL, "the bytes are not a message, or the message is from another worker"});
      }
      (void)lane_->receive(number_, pipe_, *head, reader_.payload());
    }

    Tracker::Token token_;
    GrpcDataServer& server_;
    const kvstore::Sender worker_;
    std::shared_ptr<ServerLane> lane_;
    const uint64_t number_;  // number of this stream within its lane
    const bool is_here_;
    std::shared_ptr<kvstore::Pipe> pipe_;
    MessageReader reader_;
  };

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    std::shared_ptr<IncomingStream> stream;
    grpc::Status status;
    const Result<> outcome = catching(
        [&]() -> Result<> {
          status = open_stream(*context, stream);
          return {};
        },
        "a worker's stream");
    if (!outcome) status = to_status(outcome.error());
    if (!status.ok()) return new RefusedStream(status);
    stream->start();
    return stream.get();
  }

  grpc::Status open_stream(grpc::GenericCallbackServerContext& context, std::shared_ptr<IncomingStream>& stream) {
    if (grpc::Status status = check_caller(context, options_.security, refusals_); !status.ok()) return status;
    if (context.method() != exchange_method()) return {grpc::StatusCode::UNIMPLEMENTED, "no such method"};
    return make_stream(context, stream);
  }

  grpc::Status make_stream(grpc::CallbackServerContext& context, std::shared_ptr<IncomingStream>& stream) {
    const auto rank = number<uint32_t>(metadata(context, kRankKey));
    const auto incarnation = number<uint64_t>(metadata(context, kIncarnationKey));
    const auto number_of_lane = number<uint32_t>(metadata(context, kLaneKey));
    const bool is_here = net::is_peer_of_this_host(context.peer());
    std::shared_ptr<IncomingStream> old;
    {
      const MutexLock lock(mutex_);
      if (events_ == nullptr) return {grpc::StatusCode::UNAVAILABLE, "the server does not know its workers yet"};
      const bool known = rank && *rank < peers_.size() && incarnation && *incarnation != 0 &&
                         *incarnation == peers_[*rank].incarnation;
      if (!known && rank && *rank < peers_.size() && peers_[*rank].is_awaited) {
        return {grpc::StatusCode::UNAVAILABLE, "the server is not ready for this worker yet"};
      }
      if (!known || !number_of_lane || *number_of_lane >= kLanesMax) {
        log_.warn("refused a stream from {}, which is not a worker of this job", context.peer());
        return to_status({Code::kPeerLost, "not a worker of this job, or no longer a worker of it", {}});
      }
      NewestStream& newest = peers_[*rank].lanes[*number_of_lane];
      if (newest.lane == nullptr) newest.lane = std::make_shared<ServerLane>(*events_);
      context.AddInitialMetadata(kAcceptedKey, "1");
      stream = IncomingStream::make(
          context, std::make_unique<Events>(*this, kvstore::Sender{*rank, *incarnation}, newest.lane, is_here),
          options_.unread_max);
      old = std::exchange(newest.stream, stream).lock();
    }
    // The worker has given up the old stream; otherwise it would not have opened a new one.
    if (old) old->close(grpc::Status::CANCELLED);
    log_.verbose(1, "worker {} is connected on lane {} from {}", *rank, *number_of_lane, context.peer());
    return grpc::Status::OK;
  }

  void close_streams(uint32_t worker, const grpc::Status& status) {
    std::vector<std::shared_ptr<IncomingStream>> streams;
    {
      const MutexLock lock(mutex_);
      if (worker >= peers_.size()) return;
      for (const auto& [number, lane] : peers_[worker].lanes) streams.push_back(lane.stream.lock());
    }
    for (const auto& stream : streams) {
      if (stream) stream->close(status);
    }
  }

  void end_streams() {
    const Waits::Wait wait(waits_, [this] { return fmt::format("the streams of {} to end", open_peers()); });
    if (!tracker_.wait_idle())
      log_.error("gRPC has not ended all streams of workers; the remaining streams are ignored");
  }

  // The workers that have open streams, for instance "workers 0, 3".
  std::string open_peers() const {
    const MutexLock lock(mutex_);
    std::string ranks;
    for (const Peer& peer : peers_) {
      const auto is_open = [](const auto& lane) { return !lane.second.stream.expired(); };
      if (std::ranges::any_of(peer.lanes, is_open)) ranks += fmt::format("{}{}", ranks.empty() ? " " : ", ", peer.rank);
    }
    return "workers" + ranks;
  }

  // Ends the streams of workers that have not read for too long. This needs a thread of its own, because gRPC calls no
  // reaction on a stuck stream.
  void watch() {
    name_thread("unread");
    const Result<> outcome = catching(
        [this]() -> Result<> {
          cut_stuck_streams();
          return {};
        },
        "the watch over workers that do not read");
    if (!outcome) failed(outcome.error());
  }

  void cut_stuck_streams() {
    const MutexLock lock(mutex_);
    while (!is_closing_) {
      closing_.wait_for(mutex_, options_.unread_limit / 4, [this]() DT_REQUIRES(mutex_) { return is_closing_; });
      const std::vector<std::shared_ptr<IncomingStream>> stuck = find_stuck();
      const MutexUnlock unlocked(mutex_);
      for (const auto& stream : stuck) stream->cut();
    }
  }

  std::vector<std::shared_ptr<IncomingStream>> find_stuck() DT_REQUIRES(mutex_) {
    std::vector<std::shared_ptr<IncomingStream>> stuck;
    const auto since = Backlog::Clock::now() - options_.unread_limit;
    for (const Peer& peer : peers_) {
      for (const auto& [number_of_lane, newest] : peer.lanes) {
        const std::shared_ptr<IncomingStream> stream = newest.stream.lock();
        const std::optional<uint64_t> bytes = stream ? stream->unread_since(since) : std::nullopt;
        if (!bytes) continue;
        log_.error(
            "worker {} has read none of the {} MiB that have been waiting on lane {} for {:.1f} s, so the stream is "
            "ended",
            peer.rank, *bytes >> 20, number_of_lane, static_cast<double>(options_.unread_limit.count()) / 1e3);
        stuck.push_back(stream);
      }
    }
    return stuck;
  }

  void failed(const Error& error) {
    log_.error("{}", error.line());
    std::function<void(const Error&)> report;
    {
      const MutexLock lock(mutex_);
      report = std::exchange(on_failure_, nullptr);
    }
    if (report) report(error);
  }

  DataServerOptions options_;
  Waits& waits_;
  Log log_;
  net::RefusalLog refusals_;
  std::shared_ptr<Outstanding> outstanding_ = std::make_shared<Outstanding>();
  Tracker tracker_;
  Listener listener_;
  std::thread watch_;

  mutable Mutex mutex_;
  ConditionVariable closing_;
  bool is_closing_ DT_GUARDED_BY(mutex_) = false;
  kvstore::ServerEvents* events_ DT_GUARDED_BY(mutex_) = nullptr;
  std::vector<Peer> peers_ DT_GUARDED_BY(mutex_);
  // Called when the server fails; null once it has been called.
  std::function<void(const Error&)> on_failure_ DT_GUARDED_BY(mutex_);
};

}  // namespace

uint64_t look_ahead_of_stream(const DataServerOptions& options) {
  return std::clamp<uint64_t>(options.look_ahead / std::max<uint64_t>(options.streams, 1), kDataMessageBytesMax,
                              kLookAheadMax);
}

Result<std::unique_ptr<DataServer>> DataServer::start(DataServerOptions options, Waits& waits, Log log) {
  auto server = std::make_unique<GrpcDataServer>(std::move(options), waits, std::move(log));
  DT_TRY_VOID(server->begin());
  return std::unique_ptr<DataServer>(std::move(server));
}

}  // namespace dtrain::rpc
