// Messages of kvstore/wire/message.h as gRPC carries them: the header in the first slice, the payload as it lies in
// memory in the second. No copy is made of a payload on either side.
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

// The largest message between a worker and a server: the payload of the largest slice, and what comes before it. A data
// message has a header of 64 bytes, and a control message with values a protobuf of less than 100. Only a Regroup, which
// has no values, has a longer one, of at most kControlBytesMax. gRPC ends the stream of a peer that sends more.
inline constexpr size_t kHeadBytesMax = 256;
inline constexpr size_t kDataMessageBytesMax = kvstore::kPayloadBytesMax + kHeadBytesMax;
static_assert(sizeof(kvstore::Header) <= kHeadBytesMax);
static_assert(sizeof(ControlPrefix) + kControlBytesMax <= kDataMessageBytesMax);

// The payloads that gRPC holds. A stream's end does not mean that its connection has let go of them: whoever owns the
// memory waits for this.
class Outstanding {
 public:
  void add();
  void remove();
  // False: some are still held after `limit`. `whose` names the other end in the list of open waits.
  [[nodiscard]] bool wait_none(Waits& waits, const std::string& whose, std::chrono::milliseconds limit);

 private:
  Mutex mutex_;
  ConditionVariable none_;
  uint64_t count_ DT_GUARDED_BY(mutex_) = 0;
};

grpc::ByteBuffer to_buffer(kvstore::Message message, const std::shared_ptr<Outstanding>& outstanding);

// Reads messages one after the other; its memory is used again for each.
class MessageReader {
 public:
  // nullopt: not a message of ours. The pieces are valid until the next call.
  std::optional<kvstore::Head> read(const grpc::ByteBuffer& buffer);
  [[nodiscard]] kvstore::Pieces payload() const { return std::span(pieces_).subspan(first_); }

 private:
  // Copies the next bytes of the message; false if it has fewer.
  bool take(std::span<std::byte> out);
  std::optional<kvstore::Head> read_header(const ControlPrefix& first_bytes);
  std::optional<kvstore::Head> read_control(uint32_t size);

  std::vector<grpc::Slice> slices_;
  std::vector<std::span<const std::byte>> pieces_;
  size_t first_ = 0;  // the first piece that has not been taken
  std::vector<std::byte> control_;
};

}  // namespace dtrain::rpc
