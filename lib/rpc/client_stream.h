// The caller's end of a bidirectional stream, over gRPC's callback API.
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

// Messages go out in the order of sending, from any thread. It keeps itself alive until on_end.
template <class Out, class In>
class ClientStream final : public grpc::ClientBidiReactor<Out, In> {
 public:
  // Called from gRPC's threads, one call at a time, on_end last. Must be short. What on_open and on_message throw ends
  // the stream; on_end then has it as its status.
  using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;
  class Events {
   public:
    virtual ~Events() = default;
    // The other side has answered with this initial metadata; empty if all that comes is a refusal.
    virtual void on_open(const Metadata& metadata) = 0;
    virtual void on_message(In& message) = 0;
    virtual void on_end(const grpc::Status& status) = 0;
  };

  // `prepare(context, reactor)` makes the call. Nothing starts before start(). Who owns the channel keeps it until
  // `tracker` is idle.
  template <class Prepare>
  static std::shared_ptr<ClientStream> make(Tracker& tracker, std::unique_ptr<grpc::ClientContext> context,
                                            std::unique_ptr<Events> events, Prepare&& prepare) {
    std::shared_ptr<ClientStream> stream(new ClientStream(tracker, std::move(context), std::move(events)));
    stream->self_ = stream;
    prepare(stream->context_.get(), stream.get());
    // For writes, which start outside reactions; released with the queue. Here, so that cancel() may come before
    // start().
    stream->AddHold();
    return stream;
  }

  void start() { this->StartCall(); }
  void send(Out message) { act(queue_.push(std::move(message))); }
  // The stream ends soon, with on_end.
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
    const std::shared_ptr<ClientStream> last = std::move(self_);
    events_->on_end(failure_.value_or(status));
  }
  // Then reads on.
  template <class Reaction>
  void react(Reaction&& reaction) {
    const Result<> outcome = catching(
        [&]() -> Result<> {
          reaction();
          return {};
        },
        "a message from a peer");
    if (outcome) return this->StartRead(&message_);
    failure_ = to_status(outcome.error());
    cancel();
  }

  // The first member, so the last to go: the context holds the channel, and a channel must not end on a thread of
  // gRPC's. (The last one ends those threads: it would wait for itself.) The owner waits for its tracker, then drops
  // the channel.
  Tracker::Token token_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<Events> events_;
  WriteQueue<Out> queue_;
  In message_;
  std::optional<grpc::Status> failure_;
  std::shared_ptr<ClientStream> self_;
};

}  // namespace dtrain::rpc
