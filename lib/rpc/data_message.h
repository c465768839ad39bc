// The messages of kvstore/wire/message.h in the form that gRPC carries: the first slice is the header, the second is
// the payload in place. Neither side copies a payload.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/waits.h"
#include "kvstore/wire/message.h"
#include "rpc/control_format.h"

namespace dtrain::rpc {

// The largest message between a worker and a server. It is the payload of the largest slice after a header of 64 bytes,
// or, for a control message with values, after a protobuf of less than 100 bytes. Only a Regroup, which has no values,
// has a longer protobuf, of at most kControlBytesMax. gRPC ends the stream of a peer that sends a larger message.
inline constexpr size_t kHeadBytesMax = 256;
inline constexpr size_t kDataMessageBytesMax = kvstore::kPayloadBytesMax + kHeadBytesMax;
static_assert(sizeof(kvstore::Header) <= kHeadBytesMax);
static_assert(sizeof(ControlPrefix) + kControlBytesMax <= kDataMessageBytesMax);

// Counts the payloads to which gRPC still refers. A gRPC connection may refer to them after their stream has ended, so
// the owner of their memory waits until there are none.
class Outstanding {
 public:
  void add();
  void remove();
  // Waits until the count is zero; returns false if it is not zero after `limit`. `whose` names the peer in the list of
  // open waits.
  [[nodiscard]] bool wait_none(Waits& waits, const std::string& whose, std::chrono::milliseconds limit);

 private:
  Mutex mutex_;
  ConditionVariable none_;
  uint64_t count_ DT_GUARDED_BY(mutex_) = 0;
};

grpc::ByteBuffer to_buffer(kvstore::Message message, const std::shared_ptr<Outstanding>& outstanding);

// Reads one message at a time and reuses its memory.
class MessageReader {
 public:
  // Returns nullopt if this is not a valid message. The pieces of payload() are valid until the next call.
  std::optional<kvstore::Head> read(const grpc::ByteBuffer& buffer);
  [[nodiscard]] kvstore::Pieces payload() const { return std::span(pieces_).subspan(first_); }

 private:
  // Copies the next bytes of the message. Returns false if fewer are left.
  bool take(std::span<std::byte> out);
  std::optional<kvstore::Head> read_header(const ControlPrefix& first_bytes);
  std::optional<kvstore::Head> read_control(uint32_t size);

  std::vector<grpc::Slice> slices_;
  std::vector<std::span<const std::byte>> pieces_;
  size_t first_ = 0;  // index of the first piece that has not been taken
  std::vector<std::byte> control_;
};

}  // namespace dtrain::rpc
