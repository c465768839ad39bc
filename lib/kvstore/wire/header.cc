#include "kvstore/wire/header.h"

#include <bit>
#include <cstring>

#include "kvstore/wire/payload.h"

namespace dtrain::kvstore {
namespace {

static_assert(std::endian::native == std::endian::little, "this host is not little-endian, but the wire format is");

bool is_known(Kind kind) {
  return kind >= Kind::kPush && kind <= Kind::kAnswer;
}

// The bytes of `count` values, including the padding at the end of kTwoBit.
uint64_t encoded_bytes(Encoding encoding, uint32_t count) {
  switch (encoding) {
    case Encoding::kFloat32: return uint64_t{count} * 4;
    case Encoding::kFloat16:
    case Encoding::kBfloat16: return uint64_t{count} * 2;
    case Encoding::kTwoBit: return (uint64_t{count} + 15) / 16 * 4;
  }
  return 0;
}

}  // namespace

std::optional<Header> parse_header(std::span<const std::byte> bytes, size_t payload_bytes) {
  if (bytes.size() != sizeof(Header) || payload_bytes > kPayloadBytesMax) return std::nullopt;
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(Header));
  if (header.magic != kDataMagic || !is_known(header.kind)) return std::nullopt;
  if (header.encoding > Encoding::kTwoBit || header.status > Status::kCorrupt) return std::nullopt;
  const bool asks_only = header.kind == Kind::kPull || header.kind == Kind::kRefresh;
  if (asks_only && header.element_count != 0) return std::nullopt;
  if (encoded_bytes(header.encoding, header.element_count) != payload_bytes) return std::nullopt;
  return header;
}

}  // namespace dtrain::kvstore
