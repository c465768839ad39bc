#include "kvstore/wire/message.h"

#include <bit>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/simd.h"

namespace dtrain::kvstore {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire's numbers are little-endian");

// Limit on what is sent at all; no valid message is larger.
constexpr uint32_t kPayloadMax = 64u << 20;

bool known(Kind kind) {
  return kind >= Kind::kPush && kind <= Kind::kRegroup;
}

bool carries_values(const Header& header) {
  switch (header.kind) {
    case Kind::kPush:
    case Kind::kPushPull:
    case Kind::kAssign:
    case Kind::kRegroup: return true;
    case Kind::kPull:
    case Kind::kPullState:
    case Kind::kRefresh: return false;
    case Kind::kAnswer: return header.payload_bytes != 0;
  }
  return false;
}

// Bytes of `count` values, including the padding at the end of kTwoBit.
uint64_t encoded_bytes(Encoding encoding, uint32_t count) {
  switch (encoding) {
    case Encoding::kFloat32: return uint64_t{count} * 4;
    case Encoding::kFloat16:
    case Encoding::kBfloat16: return uint64_t{count} * 2;
    case Encoding::kTwoBit: return (uint64_t{count} + 15) / 16 * 4;
  }
  return 0;
}

// The bytes may be unaligned; the memcpy of an element compiles to a load.
void copy_run(const std::byte* from, float* __restrict to, size_t count) {
  std::memcpy(static_cast<void*>(to), from, count * sizeof(float));
}
DT_MULTI_ISA void add_run(const std::byte* from, float* __restrict to, size_t count) {
  for (size_t i = 0; i < count; i++) {
    float value = 0;
    std::memcpy(&value, from + i * sizeof(float), sizeof(float));
    to[i] += value;
  }
}

// Calls run(bytes, to, count) for each run of whole numbers. A number that is split between pieces is put together
// first.
template <class Run>
void for_each_run(Pieces pieces, std::span<float> out, Run run) {
  std::byte cut[sizeof(float)];
  size_t cut_bytes = 0;
  size_t done = 0;
  for (std::span<const std::byte> piece : pieces) {
    while (!piece.empty() && (cut_bytes != 0 || piece.size() < sizeof(float))) {
      cut[cut_bytes++] = piece.front();
      piece = piece.subspan(1);
      if (cut_bytes < sizeof(float)) continue;
      DT_CHECK(done < out.size(), "{} numbers are fewer than the payload holds", out.size());
      run(cut, out.data() + done, 1);
      cut_bytes = 0;
      done++;
    }
    const size_t whole = piece.size() / sizeof(float);
    DT_CHECK(whole <= out.size() - done, "{} numbers are fewer than the payload holds", out.size());
    if (whole > 0) run(piece.data(), out.data() + done, whole);  // the pointer of an empty piece may be null
    done += whole;
    for (const std::byte byte : piece.subspan(whole * sizeof(float))) cut[cut_bytes++] = byte;
  }
  DT_CHECK(done == out.size() && cut_bytes == 0, "{} numbers are more than the payload holds", out.size());
}

}  // namespace

std::optional<Header> parse_header(std::span<const std::byte> bytes, size_t payload_bytes) {
  if (bytes.size() != sizeof(Header)) return std::nullopt;
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(Header));
  if (header.magic != kMagic || !known(header.kind)) return std::nullopt;
  if (header.encoding > Encoding::kTwoBit || header.status > Status::kRejected) return std::nullopt;
  if (header.payload_bytes != payload_bytes || payload_bytes > kPayloadMax) return std::nullopt;
  if (!carries_values(header)) {
    return payload_bytes == 0 ? std::optional(header) : std::nullopt;
  }
  if (encoded_bytes(header.encoding, header.element_count) != payload_bytes) return std::nullopt;
  if (uint64_t{header.first_element} + header.element_count > UINT32_MAX) return std::nullopt;
  return header;
}

bool payload_intact(const Header& header, Pieces payload) {
  if (header.payload_crc == 0) return true;
  uint32_t crc = 0;
  for (const std::span<const std::byte> piece : payload) crc = crc32c(piece, crc);
  return crc == header.payload_crc;
}

void copy_floats(Pieces pieces, std::span<float> out) {
  for_each_run(pieces, out, copy_run);
}
void add_floats(Pieces pieces, std::span<float> sum) {
  for_each_run(pieces, sum, add_run);
}

Message make_message(Header header, std::span<const std::byte> payload, std::shared_ptr<const void> owner,
                     bool checksum) {
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.payload_crc = checksum ? crc32c(payload) : 0;
  return {header, payload, std::move(owner)};
}

}  // namespace dtrain::kvstore
