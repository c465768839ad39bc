#include "rpc/control_stream.h"

#include <chrono>
#include <utility>

#include "base/thread.h"
#include "rpc/status.h"

namespace dtrain::rpc {

namespace {

constexpr std::chrono::seconds kWriteEnds{1};

}  // namespace

std::shared_ptr<ControlStream> ControlStream::make(Tracker& tracker, const std::shared_ptr<grpc::Channel>& channel,
                                                   std::unique_ptr<grpc::ClientContext> context,
                                                   std::unique_ptr<Events> events) {
  return std::shared_ptr<ControlStream>(new ControlStream(tracker, channel, std::move(context), std::move(events)));
}

// The thread is detached, because the owner may drop the stream in a reaction, which runs on this thread. The owner
// waits for its tracker instead.
void ControlStream::start() {
  std::thread([self = shared_from_this()] {
    name_thread("control");
    self->read_until_end();
  }).detach();
}

void ControlStream::send(proto::Up message) {
  const MutexLock lock(mutex_);
  if (closed_) return;
  queue_.push_back(std::move(message));
  changed_.notify_all();
}

void ControlStream::cancel() {
  context_->TryCancel();
  close();
}

void ControlStream::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  queue_.clear();
  changed_.notify_all();
}

void ControlStream::read_until_end() {
  const std::unique_ptr<Call> call = stub_->Control(context_.get());
  std::thread writer([this, &call] {
    name_thread("control-out");
    write_until_closed(*call);
    const MutexLock lock(mutex_);
    has_written_ = true;
    changed_.notify_all();
  });
  proto::Down message;
  while (call->Read(&message) && react(message)) continue;
  if (failure_) context_->TryCancel();
  end_writing();
  writer.join();
  const grpc::Status status = call->Finish();
  token_.run([&] { events_->on_end(failure_.value_or(status)); });
}

// Waits for the write in progress, which the end of the call ends. It is cancelled only if it takes long, because then
// the scheduler's status is lost.
void ControlStream::end_writing() {
  close();
  const MutexLock lock(mutex_);
  if (changed_.wait_for(mutex_, kWriteEnds, [this]() DT_REQUIRES(mutex_) { return has_written_; })) return;
  context_->TryCancel();
}

// Returns false if the stream must end.
bool ControlStream::react(const proto::Down& message) {
  const Result<> outcome = catching(
      [&]() -> Result<> {
        if (!token_.run([&] { events_->on_message(message); })) {
          return fail(Code::kUnavailable, "the receiver has ended");
        }
        return {};
      },
      "a message from the scheduler");
  if (!outcome) failure_ = to_status(outcome.error());
  return outcome.has_value();
}

void ControlStream::write_until_closed(Call& call) {
  while (const std::optional<proto::Up> message = next()) {
    if (!call.Write(*message)) return;
  }
}

std::optional<proto::Up> ControlStream::next() {
  const MutexLock lock(mutex_);
  changed_.wait(mutex_, [this]() DT_REQUIRES(mutex_) { return closed_ || !queue_.empty(); });
  if (closed_) return std::nullopt;
  proto::Up message = std::move(queue_.front());
  queue_.pop_front();
  return message;
}

}  // namespace dtrain::rpc
