#include "rpc/data_message.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dtrain::rpc {
namespace {

// What a slice keeps alive.
struct Held {
  std::shared_ptr<const void> owner;
  std::shared_ptr<Outstanding> outstanding;
  uint64_t bytes;
};

void release(void* user_data) {
  const std::unique_ptr<Held> held(static_cast<Held*>(user_data));
  held->owner.reset();
  held->outstanding->remove(held->bytes);
}

grpc::Slice payload_slice(const kvstore::Message& message, const std::shared_ptr<Outstanding>& outstanding) {
  auto held = std::make_unique<Held>(Held{message.owner, outstanding, message.payload.size()});
  outstanding->add(message.payload.size());
  // gRPC asks for a pointer that it could write through; it does not.
  auto* bytes = const_cast<std::byte*>(message.payload.data());
  return {bytes, message.payload.size(), release, held.release()};
}

}  // namespace

void Outstanding::add(uint64_t bytes) {
  const MutexLock lock(mutex_);
  count_++;
  bytes_ += bytes;
}

void Outstanding::remove(uint64_t bytes) {
  const MutexLock lock(mutex_);
  bytes_ -= bytes;
  if (--count_ == 0) none_.notify_all();
}

bool Outstanding::wait_none(std::chrono::milliseconds limit) {
  const MutexLock lock(mutex_);
  return none_.wait_for(mutex_, limit, [this]() DT_REQUIRES(mutex_) { return count_ == 0; });
}

grpc::ByteBuffer to_buffer(kvstore::Message message, const std::shared_ptr<Outstanding>& outstanding) {
  grpc::Slice slices[2] = {grpc::Slice(&message.header, sizeof(message.header)), grpc::Slice()};
  if (message.payload.empty()) return {slices, 1};
  slices[1] = payload_slice(message, outstanding);
  return {slices, 2};
}

std::optional<kvstore::Header> MessageReader::read(const grpc::ByteBuffer& buffer) {
  slices_.clear();
  pieces_.clear();
  if (!buffer.Dump(&slices_).ok()) return std::nullopt;
  std::byte header[sizeof(kvstore::Header)];
  size_t filled = 0;
  size_t payload_bytes = 0;
  for (const grpc::Slice& slice : slices_) {
    std::span<const std::byte> piece(reinterpret_cast<const std::byte*>(slice.begin()), slice.size());
    const size_t take = std::min(piece.size(), sizeof(header) - filled);
    std::memcpy(header + filled, piece.data(), take);
    filled += take;
    piece = piece.subspan(take);
    payload_bytes += piece.size();
    if (!piece.empty()) pieces_.push_back(piece);
  }
  return kvstore::parse_header(std::span(header, filled), payload_bytes);
}

}  // namespace dtrain::rpc
