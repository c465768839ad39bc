// The called end of a bidirectional stream, over gRPC's callback API.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <memory>
#include <utility>

#include "base/error.h"
#include "base/mutex.h"
#include "rpc/status.h"
#include "rpc/write_queue.h"

namespace dtrain::rpc {

// Messages go out in the order of sending, from any thread. It keeps itself alive until gRPC is done with it; who holds
// it longer may still call it, to no effect.
template <class Out, class In>
class ServerStream final : public grpc::ServerBidiReactor<In, Out> {
 public:
  // Called from gRPC's threads, one call at a time, on_end last. Must be short. What on_message throws ends the stream
  // with a status that the caller reads as that Error.
  class Events {
   public:
    virtual ~Events() = default;
    virtual void on_message(ServerStream& stream, In& message) = 0;
    virtual void on_end() = 0;  // nothing more comes, and what is sent from now on vanishes
  };

  static std::shared_ptr<ServerStream> make(std::unique_ptr<Events> events) {
    std::shared_ptr<ServerStream> stream(new ServerStream(std::move(events)));
    stream->self_ = stream;
    return stream;
  }
  // Once gRPC has the reactor: accepts the stream.
  void start() {
    this->StartSendInitialMetadata();
    this->StartRead(&message_);
  }
  void send(Out message) { act(queue_.push(std::move(message))); }
  // Ends the stream with `status` once the write on its way has gone. The first call counts.
  void close(const grpc::Status& status) {
    {
      const MutexLock lock(mutex_);
      if (closed_) return;
      closed_ = true;
      status_ = status;
    }
    act(queue_.close());
  }
  [[nodiscard]] std::shared_ptr<ServerStream> shared() { return self_; }  // inside a reaction

 private:
  using Next = typename WriteQueue<Out>::Next;

  explicit ServerStream(std::unique_ptr<Events> events) : events_(std::move(events)) {}

  void act(Next next) {
    if (next == Next::kWrite) this->StartWrite(&queue_.front());
    if (next == Next::kRelease) this->Finish(status());
  }

  grpc::Status status() DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return status_;
  }

  void OnReadDone(bool ok) override {
    if (!ok) return close(grpc::Status::OK);  // the caller has nothing more to say, or is gone
    const Result<> outcome = catching(
        [this]() -> Result<> {
          events_->on_message(*this, message_);
          return {};
        },
        "a message from a peer");
    if (!outcome) return close(to_status(outcome.error()));
    this->StartRead(&message_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) close(grpc::Status::CANCELLED);
    act(queue_.written());
  }
  void OnCancel() override { close(grpc::Status::CANCELLED); }
  void OnDone() override {
    const std::shared_ptr<ServerStream> last = std::move(self_);
    events_->on_end();
  }

  std::unique_ptr<Events> events_;
  WriteQueue<Out> queue_;
  In message_;
  Mutex mutex_;
  bool closed_ DT_GUARDED_BY(mutex_) = false;
  grpc::Status status_ DT_GUARDED_BY(mutex_);  // how the stream ends
  std::shared_ptr<ServerStream> self_;
};

}  // namespace dtrain::rpc
