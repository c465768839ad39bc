// The fixed header of a data message: a gradient on its way to a server, weights on their way to a worker, or the
// request for them. One message carries one whole slice. The payload follows the header as raw bytes. Neither uses
// protobuf, and all numbers are little-endian. Everything but the traffic of a step is sent as control messages
// (control.h).
//
//   field            push                    pull, refresh            answer
//   kind             kPush                   kPull, kRefresh          kAnswer
//   encoding         of the payload          kFloat32                 of the payload
//   status           kOk                     kOk                      kOk or kDuplicate; else why there are no weights
//   rank             the worker's            the worker's             the server's
//   element_count    of the slice            0                        of the slice; 0 if the request was refused
//   incarnation      of the worker           of the worker            0
//   request          its number              its number               the request's number
//   step             of the gradient         of the wanted weights    of the weights; refused: as in the request
//   samples_applied  0                       0                        before these weights
//   key, slice       which slice             which slice              which slice
//   samples          in the gradient;        0                        to a push: in the round's gradients;
//                    0: the step is left out                          0: the round was left out and changed nothing
//   payload_crc      of the payload          0                        of the payload
//
// A worker leaves a step out if its loss or a gradient was not finite. See docs/protocol.md, "Messages".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>

namespace dtrain::kvstore {

enum class Kind : uint8_t {
  // A worker's gradient of `step`. The answer carries the weights of step + 1 or, if workers update, the sum of the
  // gradients. For a moving statistic, it carries the worker's statistic, and the answer carries the mean.
  kPush = 1,
  // Asks for the weights of `step`. If workers skip steps, the answer may carry newer ones.
  kPull = 2,
  // Asks for the newest weights while all workers stand still, even if the worker's group has older ones.
  kRefresh = 3,
  kAnswer = 4,
};

enum class Encoding : uint8_t { kFloat32 = 0, kFloat16 = 1, kBfloat16 = 2, kTwoBit = 3 };

// The status of an answer to a data message or control message.
enum class Status : uint16_t {
  kOk = 0,
  kDuplicate = 1,         // the request was applied before; nothing was done
  kStaleIncarnation = 2,  // another process has taken over this rank; the sender must end
  kUnknownKey = 3,        // worker 0 has not set the slice's values yet, or this server does not hold the slice
  kBadSize = 4,
  kNonFinite = 5,  // the sum of the round's gradients has an infinite value or a NaN, so it was not applied
  kRejected = 6,   // a violation of the protocol: a step out of order, a rank that does not exist
  kCorrupt = 7,    // the payload does not match its checksum; nothing was done, and the sender may send it again
};

// The slice that a message concerns: a key, and the number of the slice within it.
struct SliceId {
  uint32_t key = 0;
  uint32_t slice = 0;
  bool operator==(const SliceId&) const = default;
  auto operator<=>(const SliceId& other) const { return std::tie(key, slice) <=> std::tie(other.key, other.slice); }
};

inline constexpr uint32_t kDataMagic = 0x32575444;  // the bytes "DTW2" as a little-endian number

struct Header {
  uint32_t magic = kDataMagic;
  Kind kind = Kind::kPush;
  Encoding encoding = Encoding::kFloat32;
  Status status = Status::kOk;
  uint32_t rank = 0;             // rank of the sender
  uint32_t element_count = 0;    // number of elements in the payload
  uint64_t incarnation = 0;      // 64 random bits that distinguish processes of one rank
  uint64_t request = 0;          // a worker numbers its requests from 1
  uint64_t step = 0;             // step of the payload; the weights of a step are those that it begins with
  uint64_t samples_applied = 0;  // samples applied to the slice since the start of the job
  uint32_t key = 0;
  uint32_t slice = 0;
  uint32_t samples = 0;      // number of samples that the payload is a sum over
  uint32_t payload_crc = 0;  // CRC-32C; 0 if the sender computed none, as between processes on one host
};
static_assert(sizeof(Header) == 64);

// Checks the magic number, the kind, the encoding, the status, and that the sizes match each other and the received
// bytes. No other field may be used before this check. Returns nullopt if this is not a valid message; then the stream
// must be closed.
std::optional<Header> parse_header(std::span<const std::byte> bytes, size_t payload_bytes);

}  // namespace dtrain::kvstore
