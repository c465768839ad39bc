// The calling end of a bidirectional stream, over gRPC's callback API.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "rpc/status.h"
#include "rpc/tracker.h"
#include "rpc/write_queue.h"

namespace dtrain::rpc {

// Messages are sent in the order of the calls of send(), which any thread may make. The stream keeps itself alive until
// on_end.
template <class Out, class In>
class ClientStream final : public grpc::ClientBidiReactor<Out, In> {
 public:
  // Called from gRPC's threads, one call at a time, on_end last. The functions must be short. If on_open or on_message
  // throws, the stream ends, and on_end gets the exception as its status.
  using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;
  class Events {
   public:
    virtual ~Events() = default;
    // The server has sent its initial metadata; it is empty if the server refuses the call.
    virtual void on_open(const Metadata& metadata) = 0;
    virtual void on_message(In& message) = 0;
    virtual void on_end(const grpc::Status& status) = 0;
  };

  // `prepare(context, reactor)` makes the call. Nothing starts before start(). The channel's owner must keep it until
  // `tracker` is idle.
  template <class Prepare>
  static std::shared_ptr<ClientStream> make(Tracker& tracker, std::unique_ptr<grpc::ClientContext> context,
                                            std::unique_ptr<Events> events, Prepare&& prepare) {
    std::shared_ptr<ClientStream> stream(new ClientStream(tracker, std::move(context), std::move(events)));
    stream->self_ = stream;
    prepare(stream->context_.get(), stream.get());
    // A hold keeps gRPC from ending the stream. It lasts until the queue is released, because writes start outside of
    // reactions. It is added here so that cancel() may be called before start().
    stream->AddHold();
    return stream;
  }

  void start() { this->StartCall(); }
  void send(Out message) { act(queue_.push(std::move(message))); }
  // Ends the stream; on_end follows soon.
  void cancel() {
    context_->TryCancel();
    act(queue_.close());
  }
  [[nodiscard]] grpc::ClientContext& context() { return *context_; }

 private:
  using Next = typename WriteQueue<Out>::Next;

  ClientStream(Tracker& tracker, std::unique_ptr<grpc::ClientContext> context, std::unique_ptr<Events> events)
      : token_(tracker), context_(std::move(context)), events_(std::move(events)) {}

  void act(Next next) {
    if (next == Next::kWrite) this->StartWrite(&queue_.front());
    if (next == Next::kRelease) this->RemoveHold();
  }

  void OnReadInitialMetadataDone(bool ok) override {
    if (!ok) return act(queue_.close());
    react([this] { events_->on_open(context_->GetServerInitialMetadata()); });
  }
  void OnReadDone(bool ok) override {
    if (!ok) return act(queue_.close());
    react([this] { events_->on_message(message_); });
  }
  void OnWriteDone(bool ok) override {
    if (!ok) act(queue_.close());
    act(queue_.written());
  }
  void OnDone(const grpc::Status& status) override {
    // If the owner no longer waits, the stream is never destroyed, because it may hold the last reference to the
    // channel.
    std::shared_ptr<ClientStream> last;
    token_.run([&] {
      last = std::move(self_);
      events_->on_end(failure_.value_or(status));
    });
  }
  // Runs the reaction, then reads the next message.
  template <class Reaction>
  void react(Reaction&& reaction) {
    const Result<> outcome = catching(
        [&]() -> Result<> {
          if (!token_.run(reaction)) return fail(Code::kUnavailable, "the receiver has ended");
          return {};
        },
        "a message from a peer");
    if (outcome) return this->StartRead(&message_);
    failure_ = to_status(outcome.error());
    cancel();
  }

  // The first member, so it is destroyed last, after the context, which holds the channel. The owner waits for its
  // tracker before it drops the channel, so the channel is never destroyed on one of gRPC's threads. (Destroying the
  // last channel ends those threads, and the thread would wait for itself.)
  Tracker::Token token_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<Events> events_;
  WriteQueue<Out> queue_;
  In message_;
  std::optional<grpc::Status> failure_;
  std::shared_ptr<ClientStream> self_;
};

}  // namespace dtrain::rpc
