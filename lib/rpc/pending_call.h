// Calls with one request and one reply that another thread answers later.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/mutex.h"
#include "rpc/status.h"
#include "rpc/tracker.h"

namespace dtrain::rpc {

// Why not an ordinary call: gRPC reads the request of an ordinary call before the program sees the call, so anyone who
// can connect could fill the memory. A PendingCall is created when only the metadata has arrived, and its request is
// read after the caller was checked.
//
// The owner of a call is the object that answers it (scheduler.cc). Its thread calls either answer() or refuse(), once;
// after that the call may be destroyed. The owner identifies calls by `id`, because it may handle a cancellation after
// the call has ended.
template <class Request, class Reply>
class PendingCall final : public grpc::ServerGenericBidiReactor {
 public:
  // Called at most once, by one of gRPC's threads, when the request has arrived. If it returns OK, the owner keeps the
  // call and answers it. Any other status becomes the answer.
  using Received = std::function<grpc::Status(PendingCall&, const Request&)>;
  // Called if the caller cancels a call that the owner keeps.
  using Cancelled = std::function<void(const Request&, uint64_t id)>;

  PendingCall(Tracker& tracker, uint64_t id, Received received, Cancelled on_cancel)
      : token_(tracker), id_(id), received_(std::move(received)), on_cancel_(std::move(on_cancel)) {}
  // Reads the request.
  void start() { StartRead(&buffer_); }

  [[nodiscard]] uint64_t id() const { return id_; }
  void answer(const Reply& reply) {
    bool own = false;
    const grpc::Status status = grpc::SerializationTraits<Reply>::Serialize(reply, &answer_, &own);
    if (!status.ok()) return Finish(status);
    StartWriteAndFinish(&answer_, {}, grpc::Status::OK);
  }
  void refuse(const grpc::Status& status) { Finish(status); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    grpc::Status status;
    const Result<> outcome = catching(
        [&]() -> Result<> {
          status = grpc::SerializationTraits<Request>::Deserialize(&buffer_, &request_);
          if (status.ok()) status = receive();
          return {};
        },
        "a call to the scheduler");
    if (!outcome) status = to_status(outcome.error());
    if (!status.ok()) Finish(status);
  }
  // A cancellation may arrive while the request is being read. The owner is then notified after it has received the
  // call.
  grpc::Status receive() {
    grpc::Status status{grpc::StatusCode::UNAVAILABLE, "the called process is ending"};
    token_.run([&] { status = received_(*this, request_); });
    bool cancelled = false;
    {
      const MutexLock lock(mutex_);
      has_owner_ = status.ok();
      cancelled = has_owner_ && cancelled_;
    }
    if (cancelled) tell_cancelled();
    return status;
  }
  void OnCancel() override {
    {
      const MutexLock lock(mutex_);
      cancelled_ = true;
      if (!has_owner_) return;
    }
    tell_cancelled();
  }
  // If on_cancel_ throws, the call stays with its owner, which answers it later.
  void tell_cancelled() {
    (void)catching([this]() -> Result<> {
      token_.run([this] { on_cancel_(request_, id_); });
      return {};
    });
  }
  void OnDone() override { delete this; }

  Tracker::Token token_;
  uint64_t id_;
  Received received_;
  Cancelled on_cancel_;
  grpc::ByteBuffer buffer_;
  Request request_;
  grpc::ByteBuffer answer_;
  Mutex mutex_;
  bool has_owner_ DT_GUARDED_BY(mutex_) = false;
  bool cancelled_ DT_GUARDED_BY(mutex_) = false;
};

}  // namespace dtrain::rpc
