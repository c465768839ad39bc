// Calls that are answered later, by another thread.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <functional>
#include <utility>

#include "base/error.h"
#include "rpc/tracker.h"

namespace dtrain::rpc {

// The owner's thread calls either answer() or refuse(), once; after that the call may be destroyed. The owner
// identifies calls by `id`, because it may handle a cancellation after the call has ended.
template <class Reply>
class PendingCall final : public grpc::ServerUnaryReactor {
 public:
  PendingCall(Tracker& tracker, uint64_t id, Reply* reply, std::function<void(uint64_t id)> on_cancel)
      : token_(tracker), id_(id), reply_(reply), on_cancel_(std::move(on_cancel)) {}

  [[nodiscard]] uint64_t id() const { return id_; }
  void answer(Reply reply) {
    *reply_ = std::move(reply);
    Finish(grpc::Status::OK);
  }
  void refuse(const grpc::Status& status) { Finish(status); }

 private:
  // If on_cancel_ throws, the call stays with its owner, which answers it later.
  void OnCancel() override {
    (void)catching([this]() -> Result<> {
      on_cancel_(id_);
      return {};
    });
  }
  void OnDone() override { delete this; }

  Tracker::Token token_;
  uint64_t id_;
  Reply* reply_;
  std::function<void(uint64_t)> on_cancel_;
};

}  // namespace dtrain::rpc
