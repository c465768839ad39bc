// The called end of a bidirectional stream, on top of gRPC's callback API.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/mutex.h"
#include "rpc/backlog.h"
#include "rpc/status.h"
#include "rpc/stream_phase.h"
#include "rpc/write_queue.h"

namespace dtrain::rpc {

// Any thread may send messages; they are sent in the order of the calls. The stream keeps itself alive until gRPC has
// finished with it. A caller that holds it longer may still call it, without effect.
//
// If the peer does not read, the stream does not read from the peer either: while more than `unread_max` bytes wait for
// the peer, the peer's messages stay in the network. So a peer cannot make this process queue more than those bytes and
// the answers to its earlier messages.
template <class Out, class In>
class ServerStream final : public grpc::ServerBidiReactor<In, Out> {
 public:
  // gRPC's threads call these functions, one call at a time, on_end last. They must be short. If on_message throws, the
  // stream ends with a status that the caller reads as that Error. Messages that arrive after close() are dropped.
  class Events {
   public:
    virtual ~Events() = default;
    virtual void on_message(ServerStream& stream, In& message) = 0;
    virtual void on_end() = 0;  // no message follows, and messages that are sent from now on are dropped
  };

  // `context` belongs to the call and lives until on_end.
  static std::shared_ptr<ServerStream> make(grpc::CallbackServerContext& context, std::unique_ptr<Events> events,
                                            uint64_t unread_max = UINT64_MAX) {
    std::shared_ptr<ServerStream> stream(new ServerStream(context, std::move(events), unread_max));
    stream->self_ = stream;
    return stream;
  }
  // Accepts the stream. To be called once gRPC has the reactor.
  void start() {
    this->StartSendInitialMetadata();
    this->StartRead(&message_);
  }
  void send(Out message) {
    backlog_.add(bytes_of(message));
    act(queue_.push(std::move(message)));
  }
  // Ends the stream with `status` after the write in progress. Only the first call has an effect.
  void close(const grpc::Status& status) {
    if (on(StreamPhase::Event::kClose, status) == StreamPhase::Action::kCloseQueue) act(queue_.close());
  }
  // Ends the stream at once, as a broken network would, even if the caller does not take what is being written.
  void cut() {
    const StreamPhase::Action action = on(StreamPhase::Event::kCut, grpc::Status::CANCELLED);
    if (action == StreamPhase::Action::kNothing) return;
    if (action == StreamPhase::Action::kCloseQueue) act(queue_.close());
    context_.TryCancel();
    finish_after(StreamPhase::Event::kCutDone);
  }
  // Returns the number of bytes that wait for the peer, if it has taken nothing since `since` and reading from it has
  // been paused since then. Nullopt otherwise.
  [[nodiscard]] std::optional<uint64_t> unread_since(Backlog::Clock::time_point since) const {
    return backlog_.stuck_since(since);
  }
  [[nodiscard]] std::shared_ptr<ServerStream> shared() { return self_; }  // must be called inside a reaction

 private:
  using Next = typename WriteQueue<Out>::Next;

  ServerStream(grpc::CallbackServerContext& context, std::unique_ptr<Events> events, uint64_t unread_max)
      : context_(context), events_(std::move(events)), backlog_(unread_max) {}

  static uint64_t bytes_of(const Out& message) {
    if constexpr (requires { message.Length(); }) {
      return message.Length();
    } else {
      return message.ByteSizeLong();
    }
  }

  void act(Next next) {
    if (next == Next::kWrite) this->StartWrite(&queue_.front());
    if (next == Next::kRelease) finish_after(StreamPhase::Event::kDrained);
  }
  void finish_after(StreamPhase::Event event) {
    if (on(event, {}) == StreamPhase::Action::kFinish) this->Finish(status());
  }
  // `status`: how the stream ends, if this event ends it.
  StreamPhase::Action on(StreamPhase::Event event, const grpc::Status& status) DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const StreamPhase::Action action = phase_.on(event);
    if (action == StreamPhase::Action::kCloseQueue) status_ = status;
    return action;
  }
  bool is_open() DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return phase_.is_open();
  }
  grpc::Status status() DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return status_;
  }

  void OnReadDone(bool ok) override {
    if (!ok) return close(grpc::Status::OK);  // the caller has nothing more to send, or is gone
    if (!is_open()) return;
    const Result<> outcome = catching(
        [this]() -> Result<> {
          events_->on_message(*this, message_);
          return {};
        },
        "a message from a peer");
    if (!outcome) return close(to_status(outcome.error()));
    if (!backlog_.pauses_reading()) this->StartRead(&message_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) close(grpc::Status::CANCELLED);
    const bool reads_again = backlog_.take(bytes_of(queue_.front()));
    act(queue_.written());
    if (reads_again && ok) this->StartRead(&message_);
  }
  void OnCancel() override { close(grpc::Status::CANCELLED); }
  void OnDone() override {
    const std::shared_ptr<ServerStream> last = std::move(self_);
    events_->on_end();
  }

  grpc::CallbackServerContext& context_;
  std::unique_ptr<Events> events_;
  WriteQueue<Out> queue_;
  Backlog backlog_;
  In message_;
  Mutex mutex_;
  StreamPhase phase_ DT_GUARDED_BY(mutex_);
  grpc::Status status_ DT_GUARDED_BY(mutex_);  // the status with which the stream ends
  std::shared_ptr<ServerStream> self_;
};

}  // namespace dtrain::rpc
