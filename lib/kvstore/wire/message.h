// A message between a worker and a server: its head and payload.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <variant>

#include "kvstore/wire/control.h"
#include "kvstore/wire/header.h"
#include "kvstore/wire/payload.h"

namespace dtrain::kvstore {

using Head = std::variant<Header, ControlRequest, ControlAnswer>;

SliceId slice_of(const Head& head);

// The process that sent a request.
struct Sender {
  uint32_t rank = 0;
  uint64_t incarnation = 0;
  bool operator==(const Sender&) const = default;
};
// Nullopt for an answer, which a server must not receive.
std::optional<Sender> sender_of(const Head& head);

// A message to send. The bytes must not change until the last copy of `owner` is gone or, without an owner, until the
// answer has arrived. They must stay readable until the pipe is gone, because a message that was sent twice around a
// reconnect may be read once more after its answer. By then the bytes may have changed, but the receiver recognizes the
// message by its number or step and drops it.
struct Message {
  Head head;
  std::span<const std::byte> payload = {};
  std::shared_ptr<const void> owner = nullptr;
};

// Makes a message whose payload is `values`. Sets the head's payload_crc if `checksum` is true, and a header's
// element_count.
Message make_message(Head head, std::span<const float> values, std::shared_ptr<const void> owner, bool checksum);
// Like make_message above, with a checksum that is already known; 0 for none.
Message make_message(Head head, std::span<const float> values, std::shared_ptr<const void> owner, uint32_t checksum);

// True if the payload matches its checksum, or if it has none.
bool payload_intact(uint32_t payload_crc, Pieces payload);

}  // namespace dtrain::kvstore
