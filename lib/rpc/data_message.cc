#include "rpc/data_message.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace dtrain::rpc {
namespace {

// Keeps the payload's memory alive while gRPC refers to it.
struct Held {
  std::shared_ptr<const void> owner;
  std::shared_ptr<Outstanding> outstanding;
};

void release(void* user_data) {
  const std::unique_ptr<Held> held(static_cast<Held*>(user_data));
  held->owner.reset();
  held->outstanding->remove();
}

grpc::Slice payload_slice(const kvstore::Message& message, const std::shared_ptr<Outstanding>& outstanding) {
  auto held = std::make_unique<Held>(Held{message.owner, outstanding});
  outstanding->add();
  // gRPC's parameter is a pointer to mutable bytes, but gRPC does not write through it.
  auto* bytes = const_cast<std::byte*>(message.payload.data());
  return {bytes, message.payload.size(), release, held.release()};
}

}  // namespace

void Outstanding::add() {
  const MutexLock lock(mutex_);
  count_++;
}

void Outstanding::remove() {
  const MutexLock lock(mutex_);
  if (--count_ == 0) none_.notify_all();
}

bool Outstanding::wait_none(Waits& waits, const std::string& whose, std::chrono::milliseconds limit) {
  const auto describe = [this, &whose] {
    const MutexLock lock(mutex_);
    return fmt::format("gRPC to drop {} messages to {}", count_, whose);
  };
  const Waits::Wait wait(waits, describe);
  const MutexLock lock(mutex_);
  return none_.wait_for(mutex_, limit, [this]() DT_REQUIRES(mutex_) { return count_ == 0; });
}

grpc::ByteBuffer to_buffer(kvstore::Message message, const std::shared_ptr<Outstanding>& outstanding) {
  grpc::Slice slices[2];
  if (const auto* header = std::get_if<kvstore::Header>(&message.head)) {
    slices[0] = grpc::Slice(header, sizeof(*header));
  } else {
    slices[0] = grpc::Slice(to_control_bytes(message.head));
  }
  if (message.payload.empty()) return {slices, 1};
  slices[1] = payload_slice(message, outstanding);
  return {slices, 2};
}

bool MessageReader::take(std::span<std::byte> out) {
  size_t filled = 0;
  while (filled < out.size() && first_ < pieces_.size()) {
    std::span<const std::byte>& piece = pieces_[first_];
    const size_t count = std::min(piece.size(), out.size() - filled);
    if (count > 0) std::memcpy(out.data() + filled, piece.data(), count);
    filled += count;
    piece = piece.subspan(count);
    if (piece.empty()) first_++;
  }
  return filled == out.size();
}

std::optional<kvstore::Head> MessageReader::read(const grpc::ByteBuffer& buffer) {
  slices_.clear();
  pieces_.clear();
  first_ = 0;
  if (!buffer.Dump(&slices_).ok()) return std::nullopt;
  for (const grpc::Slice& slice : slices_) {
    pieces_.emplace_back(reinterpret_cast<const std::byte*>(slice.begin()), slice.size());
  }
  ControlPrefix prefix;
  if (!take(std::as_writable_bytes(std::span(&prefix, 1)))) return std::nullopt;
  return prefix.magic == kControlMagic ? read_control(prefix.size) : read_header(prefix);
}

std::optional<kvstore::Head> MessageReader::read_header(const ControlPrefix& first_bytes) {
  std::byte bytes[sizeof(kvstore::Header)];
  std::memcpy(bytes, &first_bytes, sizeof(first_bytes));
  if (!take(std::span(bytes).subspan(sizeof(first_bytes)))) return std::nullopt;
  return kvstore::parse_header(bytes, kvstore::byte_count(payload()));
}

std::optional<kvstore::Head> MessageReader::read_control(uint32_t size) {
  if (size > kControlBytesMax || size > kvstore::byte_count(payload())) return std::nullopt;
  control_.resize(size);
  if (!take(control_) || kvstore::byte_count(payload()) > kvstore::kPayloadBytesMax) return std::nullopt;
  return parse_control(control_);
}

}  // namespace dtrain::rpc
