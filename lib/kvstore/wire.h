// Data messages between workers and servers: this fixed header, then the payload as raw bytes, never protobuf.
// distributed.md section 9. Little-endian.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

namespace dtrain::kvstore {

enum class Kind : uint8_t {
  kPush = 1,
  kPull = 2,      // wants `version` at least
  kPushPull = 3,  // a push whose answer carries the new weights
  kAnswer = 4,    // to a pull or push-pull: the values; to a push or assign: no payload
  // The start of a job, a resume, the statistics at an epoch's end: rank 0 sets the value. `version` is the version it
  // then has; `samples` is the slot: 0 the values, 1.. the optimiser's state, kCountersSlot. The values come last and
  // complete it. `step` counts the sender's assignments of this key from 1: one that came before is recognised by it.
  kAssign = 5,
  kPullState = 6,  // wants slot `samples` of the optimiser's state as it is after `version`
  kRefresh = 7,    // when all workers stand still: wants the newest weights, whatever its own group's are
  // When all workers stand still: rank 0 sets who goes with whom, a uint32 a worker, the number of its group. Rounds
  // begin anew, with the step that the answer has as its version. `step` counts up: what came before is recognised.
  kRegroup = 8,
};

// Holds no slice of an array but Counters, as 16 bytes of payload and element_count 4.
inline constexpr uint32_t kCountersSlot = 0xffffffff;
struct Counters {
  uint64_t samples = 0;  // applied since the start of the job
  uint64_t updates = 0;  // of this slice since the start of the job
};

enum class Encoding : uint8_t { kFloat32 = 0, kFloat16 = 1, kBfloat16 = 2, kTwoBit = 3 };

enum class Status : uint16_t {
  kOk = 0,
  kDuplicate = 1,         // was applied before: nothing done
  kStaleIncarnation = 2,  // another process has taken over this rank: the sender must end
  kUnknownKey = 3,        // never initialised (R-D4), or no slice of this server
  kBadSize = 4,
  kNonFinite = 5,
  kRejected = 6,  // against the protocol: a step out of order, a rank that does not exist, a broken checksum
};

inline constexpr uint32_t kMagic = 0x31575444;  // "DTW1"

struct Header {
  uint32_t magic = kMagic;
  Kind kind = Kind::kPush;
  Encoding encoding = Encoding::kFloat32;
  Status status = Status::kOk;
  uint16_t rank = 0;  // of the sender
  uint16_t membership_epoch = 0;
  uint32_t first_element = 0;  // of this chunk within the slice
  union {
    uint64_t incarnation = 0;  // of the sender
    uint64_t samples_applied;  // answer: to the slice since the start of the job, when the values were what is sent
  };
  uint64_t step = 0;
  uint64_t version = 0;  // wanted at least (pull), applied (answer), given (assign)
  uint32_t key = 0;
  uint32_t slice = 0;          // part of the key
  uint32_t element_count = 0;  // of this chunk
  uint32_t samples = 0;        // that contributed (push; answer with a sum); slot (assign, pull state)
  uint32_t payload_bytes = 0;
  uint32_t payload_crc = 0;  // crc32c; 0: the sender made none, as between processes of one host
};
static_assert(sizeof(Header) == 64);

// The parts of a received payload, in order; borders fall anywhere, also inside a number.
using Pieces = std::span<const std::span<const std::byte>>;

// Checks magic, known kind and encoding, sizes that fit each other and the bytes received: nothing else may be believed
// before. nullopt: not a message of ours; the stream is to be closed.
std::optional<Header> parse_header(std::span<const std::byte> bytes, size_t payload_bytes);

// Whether the payload is what the sender sent: its checksum, where there is one.
bool payload_intact(const Header& header, Pieces payload);

// From pieces to numbers: copies, or adds element by element. The pieces must hold exactly out.size() float32.
void copy_floats(Pieces pieces, std::span<float> out);
void add_floats(Pieces pieces, std::span<float> sum);

// What is sent. The bytes must not change until the last copy of `owner` is gone; without an owner, until the answer
// came. They must stay readable until the pipe ends: a message that was sent twice around a break may be read once more
// after its answer, and whatever it then holds, the receiver knows its step and drops it.
struct Message {
  Header header;
  std::span<const std::byte> payload;
  std::shared_ptr<const void> owner;
};
// A message with this payload: sets payload_bytes, and payload_crc if `checksum`.
Message make_message(Header header, std::span<const std::byte> payload, std::shared_ptr<const void> owner,
                     bool checksum);

// Chunks of a slice: as many elements a message at most. 1 MiB streams best over gRPC (performance.md 5).
inline constexpr uint32_t kChunkElements = 1 << 18;

}  // namespace dtrain::kvstore
