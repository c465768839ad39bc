// The calling end of the control stream, with threads of its own: one reads and one writes.
//
// gRPC's callback API, which carries the data, has only as many threads as the host has cores (at least 2). A process
// whose data messages block all of them, for example because a file system does not answer, must still send heartbeats
// and hear the scheduler.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <deque>
#include <memory>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/mutex.h"
#include "rpc/tracker.h"
#include "scheduler.grpc.pb.h"

namespace dtrain::rpc {

// Messages are sent in the order of the calls of send(). Any thread may call send() and cancel(). The stream keeps
// itself alive until on_end.
class ControlStream : public std::enable_shared_from_this<ControlStream> {
 public:
  // Called by the reading thread, on_end last. If on_message throws, the stream ends, and on_end gets the exception as
  // its status.
  class Events {
   public:
    virtual ~Events() = default;
    virtual void on_message(const proto::Down& message) = 0;
    virtual void on_end(const grpc::Status& status) = 0;
  };

  // Nothing starts before start().
  static std::shared_ptr<ControlStream> make(Tracker& tracker, const std::shared_ptr<grpc::Channel>& channel,
                                             std::unique_ptr<grpc::ClientContext> context,
                                             std::unique_ptr<Events> events);
  void start();
  void send(proto::Up message) DT_EXCLUDES(mutex_);
  // Ends the stream; on_end follows soon.
  void cancel() DT_EXCLUDES(mutex_);

 private:
  ControlStream(Tracker& tracker, const std::shared_ptr<grpc::Channel>& channel,
                std::unique_ptr<grpc::ClientContext> context, std::unique_ptr<Events> events)
      : token_(tracker),
        stub_(proto::Scheduler::NewStub(channel)),
        context_(std::move(context)),
        events_(std::move(events)) {}

  using Call = grpc::ClientReaderWriter<proto::Up, proto::Down>;
  void read_until_end();
  void write_until_closed(Call& call) DT_EXCLUDES(mutex_);
  void end_writing() DT_EXCLUDES(mutex_);
  bool react(const proto::Down& message);
  void close() DT_EXCLUDES(mutex_);
  std::optional<proto::Up> next() DT_EXCLUDES(mutex_);

  // The first member, so it is destroyed last, after the stub and the context, which hold the channel.
  Tracker::Token token_;
  std::unique_ptr<proto::Scheduler::Stub> stub_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<Events> events_;
  std::optional<grpc::Status> failure_;  // used by the reading thread

  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<proto::Up> queue_ DT_GUARDED_BY(mutex_);
  bool closed_ DT_GUARDED_BY(mutex_) = false;
  bool has_written_ DT_GUARDED_BY(mutex_) = false;  // whether the writing thread has ended
};

}  // namespace dtrain::rpc
