// How the control messages between workers and servers (kvstore/wire/control.h) are encoded on the network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "kvstore/wire/message.h"

namespace dtrain::rpc {

inline constexpr uint32_t kControlMagic = 0x31435444;  // the bytes "DTC1" as a little-endian number
// The size of the prefix: the magic number, and the size of the protobuf that follows.
struct ControlPrefix {
  uint32_t magic = kControlMagic;
  uint32_t size = 0;
};
// Larger protobufs are refused unread. This is enough for the groups of 100,000 workers.
inline constexpr uint32_t kControlBytesMax = 1 << 20;

// Returns the prefix and the protobuf. `head` must hold a control message, not a Header.
std::string to_control_bytes(const kvstore::Head& head);
// Reads the protobuf. Nullopt if it is not a valid control message.
std::optional<kvstore::Head> parse_control(std::span<const std::byte> protobuf);

}  // namespace dtrain::rpc
