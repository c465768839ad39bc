#include "rpc/data_client.h"

#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "base/printable.h"
#include "base/thread.h"
#include "rpc/certificates.h"
#include "rpc/channel.h"
#include "rpc/client_stream.h"
#include "rpc/data_message.h"
#include "rpc/data_method.h"
#include "rpc/link_state.h"
#include "rpc/status.h"

namespace dtrain::rpc {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using OutgoingStream = ClientStream<grpc::ByteBuffer, grpc::ByteBuffer>;

constexpr milliseconds kLetGo{5'000};
constexpr std::chrono::minutes kBetweenLines{1};  // minimum time between two log lines about one server

// Whether gRPC may end a stream with this status because its connection broke, rather than because the server refuses
// it.
bool may_be_broken(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::DATA_LOSS: return true;
    default: return from_status(status).code == Code::kUnavailable;
  }
}

// The connection to one server: one stream for each lane, each on its own channel. When one breaks, all are replaced.
class Link final : public kvstore::Pipe {
 public:
  // How links notify the client. These functions are called without a link's lock.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void on_change() = 0;  // the link has opened or ended
    virtual void on_failure(Error error) = 0;
  };

  Link(const DataClientOptions& options, uint32_t server, net::Endpoint endpoint, kvstore::ClientEvents& events,
       Owner& owner, Log log)
      : options_(options),
        server_(server),
        needs_checksums_(!net::is_this_host(endpoint.host)),
        events_(events),
        owner_(owner),
        log_(std::move(log)),
        endpoint_(std::move(endpoint)),
        lanes_(static_cast<size_t>(options.lanes)),
        state_({.streams = lanes_.size(), .retry_first = options.retry_first, .retry_last = options.retry_last}) {
    make_channels();
  }

  void send(kvstore::Message message) override {
    std::shared_ptr<OutgoingStream> stream;
    {
      const MutexLock lock(mutex_);
      if (state_.phase() != LinkState::Phase::kOpen) return;
      stream = lane_of(message).stream;
    }
    stream->send(to_buffer(std::move(message), outstanding_));
  }

  bool needs_checksums() const override { return needs_checksums_; }

  // Leads to another server from now on.
  void move(net::Endpoint endpoint) {
    {
      const MutexLock lock(mutex_);
      if (state_.phase() == LinkState::Phase::kClosed) return;
      endpoint_ = std::move(endpoint);
      needs_checksums_ = !net::is_this_host(endpoint_.host);
      cause_ = "another server has its rank now";
      make_channels();
      state_.move();
    }
    break_off();
    owner_.on_change();
  }

  // Opens the streams if none is left and the next attempt is due.
  void open_if_due() {
    std::vector<std::shared_ptr<OutgoingStream>> opened;
    {
      const MutexLock lock(mutex_);
      if (!state_.open(Clock::now())) return;
      cause_.clear();
      for (size_t i = 0; i < lanes_.size(); i++) opened.push_back(lanes_[i].stream = make_stream(i));
    }
    for (const auto& stream : opened) stream->start();
  }
  [[nodiscard]] Clock::time_point due() const {
    const MutexLock lock(mutex_);
    return state_.due();
  }
  // Nullopt if the link is open or was never open.
  [[nodiscard]] std::optional<LostLink> loss() const {
    const MutexLock lock(mutex_);
    const std::optional<Clock::time_point> since = state_.lost_at();
    if (!since) return std::nullopt;
    return LostLink{.server = server_,
                    .since = *since,
                    .why = fmt::format("from {} to {}: {}", options_.host, to_text(endpoint_),
                                       last_error_.empty() ? "it was cut" : printable(last_error_))};
  }
  [[nodiscard]] bool open() const {
    const MutexLock lock(mutex_);
    return state_.phase() == LinkState::Phase::kOpen;
  }
  [[nodiscard]] bool was_open() const {
    const MutexLock lock(mutex_);
    return state_.has_been_open();
  }
  // Why this link can never open because of TLS; nullopt if TLS is not the reason. Connects to the server to find out.
  [[nodiscard]] std::optional<Error> refusal() const {
    const auto why = tls_refusal(endpoint(), options_.security.tls, kLookAtTls);
    if (!why) return std::nullopt;
    return Error{Code::kDenied, *why, {}}.with(fmt::format("connecting to server {}", server_));
  }
  [[nodiscard]] std::string last_error() const {
    const MutexLock lock(mutex_);
    return last_error_;
  }
  [[nodiscard]] std::string name() const { return fmt::format("server {} at {}", server_, to_text(endpoint())); }
  [[nodiscard]] const std::shared_ptr<Outstanding>& outstanding() const { return outstanding_; }

  void close() {
    {
      const MutexLock lock(mutex_);
      state_.close();
    }
    break_off();
  }
  // To be called after close(). Waits for gRPC to finish the streams, then closes the connections. Returns false if
  // gRPC keeps some streams for longer than Tracker::kLimit; these no longer use this object.
  [[nodiscard]] bool drop_channels() {
    const bool is_idle = tracker_.wait_idle();
    const MutexLock lock(mutex_);
    for (Lane& lane : lanes_) lane.channel.reset();
    return is_idle;
  }

 private:
  class Events final : public OutgoingStream::Events {
   public:
    explicit Events(Link& link) : link_(link) {}
    void on_open(const OutgoingStream::Metadata& metadata) override {
      if (metadata.contains(kAcceptedKey)) link_.on_open();
    }
    void on_message(grpc::ByteBuffer& buffer) override { link_.on_message(reader_, buffer); }
    void on_end(const grpc::Status& status) override { link_.on_end(status); }

   private:
    Link& link_;  // outlives this object, because GrpcDataClient::close waits until the link's tracker is idle
    MessageReader reader_;
  };
  [[nodiscard]] net::Endpoint endpoint() const {
    const MutexLock lock(mutex_);
    return endpoint_;
  }
  void make_channels() DT_REQUIRES(mutex_) {
    const auto silent = options_.heartbeat_timeout;
    const Silence silence{.ping_after = silent / 4, .ping_limit = silent / 2};
    for (Lane& lane : lanes_) {
      lane.channel = make_channel(endpoint_, options_.security, Traffic::kData, silence, options_.fail_points);
    }
  }

  struct Lane {
    std::shared_ptr<grpc::Channel> channel;
    std::shared_ptr<OutgoingStream> stream;  // the lane's stream; null if there is none or it is ending
    uint64_t bytes = 0;                      // payload bytes sent so far
  };

  // A slice keeps its lane, so that its messages keep their order. A new slice gets the lane that has carried the least
  // bytes.
  Lane& lane_of(const kvstore::Message& message) DT_REQUIRES(mutex_) {
    const kvstore::SliceId id = slice_of(message.head);
    const uint64_t slice = uint64_t{id.key} << 32 | id.slice;
    const auto least = std::ranges::min_element(lanes_, {}, &Lane::bytes);
    const auto [place, is_new] = lane_index_.try_emplace(slice, static_cast<size_t>(least - lanes_.begin()));
    Lane& lane = lanes_[place->second];
    lane.bytes += message.payload.size();
    return lane;
  }

  std::shared_ptr<OutgoingStream> make_stream(size_t lane) DT_REQUIRES(mutex_) {
    auto context = std::make_unique<grpc::ClientContext>();
    sign(*context, options_.security);
    context->AddMetadata(kRankKey, std::to_string(options_.rank));
    context->AddMetadata(kIncarnationKey, std::to_string(options_.incarnation));
    context->AddMetadata(kLaneKey, std::to_string(lane));
    grpc::GenericStub stub(lanes_[lane].channel);
    return OutgoingStream::make(tracker_, std::move(context), std::make_unique<Events>(*this),
                                [&](grpc::ClientContext* c, auto* reactor) {
                                  stub.PrepareBidiStreamingCall(c, exchange_method(), {}, reactor);
                                });
  }

  void on_open() {
    LinkState::Accepted accepted = LinkState::Accepted::kNotAll;
    {
      const MutexLock lock(mutex_);
      accepted = state_.accept();
    }
    if (accepted == LinkState::Accepted::kNotAll) return;
    if (accepted == LinkState::Accepted::kReopened) guarded([this] { events_.on_reconnected(server_); });
    owner_.on_change();
  }

  void on_message(MessageReader& reader, const grpc::ByteBuffer& buffer) {
    guarded([&] {
      const std::optional<kvstore::Head> head = reader.read(buffer);
      if (head) {
        has_answered_ = true;
        return events_.on_message(server_, *head, reader.payload());
      }
      {
        const MutexLock lock(mutex_);
        state_.distrust();
        cause_ = "it sent bytes that are not a message";
      }
      break_off();  // all unanswered requests are repeated on new streams
    });
  }

  // Ends all lanes because one has broken, so that every unanswered request is sent again.
  void break_off() {
    std::vector<std::shared_ptr<OutgoingStream>> ending;
    {
      const MutexLock lock(mutex_);
      state_.break_off();
      for (Lane& lane : lanes_) {
        if (lane.stream) ending.push_back(std::exchange(lane.stream, nullptr));
      }
    }
    for (const auto& stream : ending) stream->cancel();
  }

  void on_end(const grpc::Status& status) {
    break_off();
    const bool final = !status.ok() && !may_be_broken(status);
    if (final) owner_.on_failure(from_status(status).with("connecting to " + name()));
    std::string line;
    {
      const MutexLock lock(mutex_);
      if (status.error_code() != grpc::CANCELLED) {
        last_error_ = status.error_message();
        if (cause_.empty()) cause_ = status.ok() ? "it ended the stream" : printable(last_error_);
      }
      const auto delay = state_.end(Clock::now(), has_answered_);
      if (delay) has_answered_ = false;
      const bool is_news = state_.has_been_open() && state_.phase() != LinkState::Phase::kClosed && !final;
      if (delay && is_news) line = line_of_break(*delay);
    }
    if (!line.empty()) log_.warn("{}", line);
    owner_.on_change();
  }

  // The log line about the break; empty if the last line was written less than kBetweenLines ago.
  std::string line_of_break(milliseconds delay) DT_REQUIRES(mutex_) {
    breaks_++;
    const auto now = Clock::now();
    if (logged_at_ && now - *logged_at_ < kBetweenLines) return "";
    logged_at_ = now;
    const uint64_t others = std::exchange(breaks_, 0) - 1;
    return fmt::format("lost the connection to server {} at {}: {}; the next attempt is in {:g} s{}", server_,
                       to_text(endpoint_), cause_.empty() ? "it was cut" : cause_, delay.count() / 1000.0,
                       others > 0 ? fmt::format(" ({} more failures since the last line)", others) : "");
  }

  template <class Reaction>
  void guarded(Reaction&& reaction) {
    auto outcome = catching(
        [&]() -> Result<> {
          reaction();
          return {};
        },
        "a message from a server");
    if (!outcome) owner_.on_failure(std::move(outcome.error()));
  }

  const DataClientOptions& options_;
  const uint32_t server_;
  std::atomic<bool> needs_checksums_;
  kvstore::ClientEvents& events_;
  Owner& owner_;
  const Log log_;
  std::shared_ptr<Outstanding> outstanding_ = std::make_shared<Outstanding>();
  Tracker tracker_;  // counts the streams that gRPC has not finished

  mutable Mutex mutex_;
  net::Endpoint endpoint_ DT_GUARDED_BY(mutex_);
  std::vector<Lane> lanes_ DT_GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, size_t> lane_index_ DT_GUARDED_BY(mutex_);  // maps a slice to its lane
  LinkState state_ DT_GUARDED_BY(mutex_);
  std::string last_error_ DT_GUARDED_BY(mutex_);
  std::atomic<bool> has_answered_ = false;     // whether the server has sent a message on the current streams
  std::string cause_ DT_GUARDED_BY(mutex_);    // why the current streams end; empty if not known
  uint64_t breaks_ DT_GUARDED_BY(mutex_) = 0;  // number of broken connections since the last log line
  std::optional<Clock::time_point> logged_at_ DT_GUARDED_BY(mutex_);
};

class GrpcDataClient final : public DataClient, private Link::Owner {
 public:
  GrpcDataClient(DataClientOptions options, std::vector<net::Endpoint> endpoints, kvstore::ClientEvents& events,
                 Waits& waits, Log log)
      : options_(std::move(options)), waits_(waits), log_(std::move(log)) {
    for (uint32_t server = 0; server < endpoints.size(); server++) {
      links_.push_back(std::make_shared<Link>(options_, server, std::move(endpoints[server]), events,
                                              static_cast<Link::Owner&>(*this), log_));
    }
  }
  ~GrpcDataClient() override { close(); }

  std::vector<std::shared_ptr<kvstore::Pipe>> pipes() const override { return {links_.begin(), links_.end()}; }

  void on_failure(std::function<void(const Error&)> callback) override { callback_ = std::move(callback); }
  void on_lost_links(std::function<void(const std::vector<LostLink>&)> callback) override {
    lost_callback_ = std::move(callback);
  }

  Result<> connect(milliseconds limit) override {
    const Waits::Wait wait(waits_, [this] { return "the connection to " + missing(); });
    const auto deadline = Clock::now() + limit;
    thread_ = std::thread([this] { serve(); });
    const MutexLock lock(mutex_);
    const auto settled = [this]() DT_REQUIRES(mutex_) { return error_ || closed_ || all_open(); };
    changed_.wait_until(mutex_, deadline, settled);
    if (error_) return tl::unexpected(*error_);
    if (closed_)
      return fail(Code::kUnavailable, "the connections to the servers were closed before all of them were open");
    if (all_open()) return {};
    return fail(Code::kStartup, "could not connect to {} within {} s", missing(), limit.count() / 1000.0);
  }

  Result<> move(uint32_t server, const std::string& address) override {
    DT_TRY(net::Endpoint endpoint, net::parse_endpoint(address), "reading the address of server {}", server);
    if (server < links_.size()) links_[server]->move(std::move(endpoint));
    return {};
  }

  void cancel(const Error& why) override {
    const MutexLock lock(mutex_);
    if (error_ || closed_) return;
    error_ = why;
    changed_.notify_all();
  }

  void close() override {
    {
      const MutexLock lock(mutex_);
      if (std::exchange(closed_, true) && !thread_.joinable()) return;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    lost_wait_.reset();
    for (const auto& link : links_) link->close();
    for (const auto& link : links_) {
      const Waits::Wait wait(waits_, [&link] { return fmt::format("the streams to {} to end", link->name()); });
      if (link->drop_channels()) continue;
      log_.error("gRPC has not ended all streams to {}; the remaining streams are ignored", link->name());
    }
    for (const auto& link : links_) {
      if (link->outstanding()->wait_none(waits_, link->name(), kLetGo)) continue;
      log_.error("gRPC still holds messages to {} that should have been dropped", link->name());
    }
  }

 private:
  void on_change() override {
    const MutexLock lock(mutex_);
    changes_++;
    changed_.notify_all();
  }

  void on_failure(Error error) override {
    {
      const MutexLock lock(mutex_);
      if (error_ || closed_) return;
      error_ = error;
      changed_.notify_all();
    }
    if (callback_) callback_(error);
  }

  [[nodiscard]] bool all_open() const {
    return std::ranges::all_of(links_, [](const auto& link) { return link->open(); });
  }

  [[nodiscard]] std::string missing() const {
    std::string text;
    for (size_t server = 0; server < links_.size(); server++) {
      if (links_[server]->open()) continue;
      text += (text.empty() ? "" : ", ") + links_[server]->name();
      const std::string why = links_[server]->last_error();
      if (!why.empty()) text += fmt::format(" ({})", why);
    }
    return text;
  }

  void serve() {
    name_thread("reconnect");
    auto outcome = catching(
        [this]() -> Result<> {
          keep_connected();
          return {};
        },
        "the connections to the servers");
    if (!outcome) on_failure(std::move(outcome.error()));
  }

  // Asks servers that cannot be reached whether TLS is the reason: to gRPC, a refused TLS connection looks like a
  // server that does not listen yet.
  void look_at_refusals() {
    for (const auto& link : links_) {
      if (link->was_open() || !is_running()) continue;
      if (std::optional<Error> error = link->refusal()) on_failure(*std::move(error));
    }
  }
  [[nodiscard]] bool is_running() {
    const MutexLock lock(mutex_);
    return !closed_ && !error_;
  }

  [[nodiscard]] std::vector<LostLink> lost_links() const {
    std::vector<LostLink> lost;
    for (const auto& link : links_) {
      if (std::optional<LostLink> one = link->loss()) lost.push_back(*std::move(one));
    }
    return lost;
  }

  // Reports which links are lost if they are not those of the last report.
  void report_lost_links() {
    std::vector<LostLink> lost = lost_links();
    if (lost == reported_) return;
    if (lost.empty()) lost_wait_.reset();
    if (!lost.empty() && !lost_wait_) lost_wait_.emplace(waits_, [this] { return missing() + " to be reached again"; });
    if (lost_callback_) lost_callback_(lost);
    reported_ = std::move(lost);
  }

  void keep_connected() {
    auto look_at = Clock::now() + kLookAtTls;
    const MutexLock lock(mutex_);
    while (!closed_ && !error_) {
      const uint64_t seen = changes_;
      auto due = Clock::now() + std::chrono::hours(1);
      {
        const MutexUnlock unlocked(mutex_);
        report_lost_links();
        for (const auto& link : links_) {
          link->open_if_due();
          due = std::min(due, link->due());
        }
        const bool is_starting = !std::ranges::all_of(links_, [](const auto& link) { return link->was_open(); });
        if (is_starting && Clock::now() >= look_at) {
          look_at_refusals();
          look_at = Clock::now() + kLookAtTls;
        }
        if (is_starting) due = std::min(due, look_at);
      }
      changed_.wait_until(mutex_, due, [&]() DT_REQUIRES(mutex_) { return closed_ || error_ || changes_ != seen; });
    }
  }

  DataClientOptions options_;
  Waits& waits_;
  Log log_;
  std::function<void(const Error&)> callback_;
  std::function<void(const std::vector<LostLink>&)> lost_callback_;
  std::vector<LostLink> reported_;        // the lost links that were reported last; used by thread_
  std::optional<Waits::Wait> lost_wait_;  // open while links are lost; used by thread_
  std::vector<std::shared_ptr<Link>> links_;
  std::thread thread_;

  Mutex mutex_;
  ConditionVariable changed_;
  uint64_t changes_ DT_GUARDED_BY(mutex_) = 0;
  bool closed_ DT_GUARDED_BY(mutex_) = false;
  std::optional<Error> error_ DT_GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<DataClient>> DataClient::create(DataClientOptions options, kvstore::ClientEvents& events,
                                                       Waits& waits, Log log) {
  std::vector<net::Endpoint> endpoints;
  for (const std::string& server : options.servers) {
    DT_TRY(net::Endpoint endpoint, net::parse_endpoint(server), "reading the address of server {}", endpoints.size());
    endpoints.push_back(std::move(endpoint));
  }
  return std::unique_ptr<DataClient>(
      new GrpcDataClient(std::move(options), std::move(endpoints), events, waits, std::move(log)));
}

}  // namespace dtrain::rpc
