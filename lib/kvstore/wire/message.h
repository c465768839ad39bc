// The format of data messages between workers and servers: this fixed header, followed by the payload as raw bytes (not
// protobuf). Little-endian. See docs/protocol.md, "Messages".
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

namespace dtrain::kvstore {

enum class Kind : uint8_t {
  kPush = 1,
  kPull = 2,      // asks for the weights of at least `version`
  kPushPull = 3,  // a push whose answer carries the new weights
  kAnswer = 4,    // to a pull or push-pull: the values; to a push or assign: no payload
  // Rank 0 sets the value, at the start of a job or on a resume. `version` is the version that the slice then has.
  // `samples` is the slot: 0 for the values, 1 and up for the optimizer state, or kCountersSlot. The values are sent
  // last and complete the assignment. `step` counts the sender's assignments of this key from 1, so that the server
  // recognizes a repeat.
  kAssign = 5,
  kPullState = 6,  // asks for slot `samples` of the optimizer state, not older than `version`
  kRefresh = 7,    // when all workers stand still: asks for the newest weights, even if its group has older ones
  // Rank 0 sets the groups while all workers stand still: the payload is one uint32 per worker, the number of its
  // group. New rounds begin with the step that the answer has as its version. `step` increases with every regrouping,
  // so that the server recognizes a repeat.
  kRegroup = 8,
};

// This slot is not an array but a Counters: 16 bytes of payload, element_count 4.
inline constexpr uint32_t kCountersSlot = 0xffffffff;
struct Counters {
  uint64_t samples = 0;  // applied to this slice since the start of the job
  uint64_t updates = 0;  // of this slice since the start of the job
};

enum class Encoding : uint8_t { kFloat32 = 0, kFloat16 = 1, kBfloat16 = 2, kTwoBit = 3 };

enum class Status : uint16_t {
  kOk = 0,
  kDuplicate = 1,         // was applied before; nothing was done
  kStaleIncarnation = 2,  // another process has taken over this rank; the sender must end
  kUnknownKey = 3,        // never initialized, or not a slice of this server
  kBadSize = 4,
  kNonFinite = 5,
  kRejected = 6,  // a violation of the protocol: a step out of order, a rank that does not exist, a wrong checksum
};

inline constexpr uint32_t kMagic = 0x31575444;  // "DTW1"

struct Header {
  uint32_t magic = kMagic;
  Kind kind = Kind::kPush;
  Encoding encoding = Encoding::kFloat32;
  Status status = Status::kOk;
  uint16_t rank = 0;  // of the sender
  uint16_t membership_epoch = 0;
  uint32_t first_element = 0;  // position of this chunk within the slice
  union {
    uint64_t incarnation = 0;  // request: of the sender
    uint64_t samples_applied;  // answer: samples that had been applied to the sent values since the start of the job
  };
  uint64_t step = 0;
  uint64_t version = 0;  // pull: wanted at least; answer: the slice's; assign: to be set
  uint32_t key = 0;
  uint32_t slice = 0;          // part of the key
  uint32_t element_count = 0;  // of this chunk
  uint32_t samples = 0;        // push, answer with a sum: samples in the gradient; assign, pull state: the slot
  uint32_t payload_bytes = 0;
  uint32_t payload_crc = 0;  // CRC-32C; 0: the sender computed none, as between processes on one host
};
static_assert(sizeof(Header) == 64);

// The parts of a received payload, in order. They may be split anywhere, even inside a number.
using Pieces = std::span<const std::span<const std::byte>>;

// Checks the magic number, the kind, the encoding, and that the sizes match each other and the received bytes. No other
// field may be used before this check. Returns nullopt if this is not a valid message; the stream must then be closed.
std::optional<Header> parse_header(std::span<const std::byte> bytes, size_t payload_bytes);

// True if the payload matches its checksum, or if it has none.
bool payload_intact(const Header& header, Pieces payload);

// Copies the values, or adds them element by element. The pieces must hold exactly out.size() float32 values.
void copy_floats(Pieces pieces, std::span<float> out);
void add_floats(Pieces pieces, std::span<float> sum);

// A message to send. The bytes must not change until the last copy of `owner` is gone or, without an owner, until the
// answer has come. They must stay readable until the pipe is gone: a message that was sent twice around a reconnect may
// be read once more after its answer. Whatever it then holds, the receiver recognizes its step and drops it.
struct Message {
  Header header;
  std::span<const std::byte> payload;
  std::shared_ptr<const void> owner;
};
// Makes a message with this payload: sets payload_bytes and, if `checksum` is true, payload_crc.
Message make_message(Header header, std::span<const std::byte> payload, std::shared_ptr<const void> owner,
                     bool checksum);

// The largest number of elements in one message; larger slices are sent as several chunks. 1 MiB messages gave the
// highest throughput over gRPC.
inline constexpr uint32_t kChunkElements = 1 << 18;

}  // namespace dtrain::kvstore
