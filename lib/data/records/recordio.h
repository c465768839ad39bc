// RecordIO, as MXNet writes it (docs/formats.md, "RecordIO"). A file is a sequence of parts; each consists of the
// magic, the word (flag << 29 | length), the payload, and zero bytes up to a multiple of 4. A record is one part (flag
// 0) or several (flags 1, 2 ..., 3). A payload that contains the magic at a multiple of 4 is cut there: the four bytes
// are left out, and the reader puts them back between the two parts.
//
// This file handles bytes in memory; record_file.h reads files. Source: dmlc-core src/recordio.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::data {

using Bytes = std::span<const uint8_t>;

constexpr uint32_t kRecordMagic = 0xced7230a;
constexpr int64_t kPartBytesMax = (int64_t{1} << 29) - 1;

// The first two words of a part.
struct PartHeader {
  static constexpr int64_t kBytes = 8;
  uint32_t magic = 0;
  uint32_t flag = 0;  // 0 whole record, 1 first part, 2 middle, 3 last
  int64_t length = 0;

  [[nodiscard]] bool begins_record() const { return magic == kRecordMagic && flag <= 1; }
  [[nodiscard]] bool continues_record() const { return magic == kRecordMagic && flag >= 2 && flag <= 3; }
  [[nodiscard]] int64_t padded_bytes() const { return kBytes + (length + 3) / 4 * 4; }
};
PartHeader parse_part_header(Bytes word_pair);  // at least 8 bytes

// Appends a record with this payload. Code::kData if the payload is too long for a part (2^29 bytes).
Result<> append_record(std::vector<uint8_t>& out, Bytes payload);

// The first position p >= `from`, a multiple of 4, at which a record begins in `bytes`; bytes.size() if there is none.
// `bytes` must begin at a multiple of 4 in the file.
int64_t find_record_start(Bytes bytes, int64_t from);

inline uint32_t load_u32(const uint8_t* p) {
  return uint32_t{p[0]} | uint32_t{p[1]} << 8 | uint32_t{p[2]} << 16 | uint32_t{p[3]} << 24;
}
inline uint64_t load_u64(const uint8_t* p) {
  return load_u32(p) | uint64_t{load_u32(p + 4)} << 32;
}
inline void store_u32(uint8_t* p, uint32_t value) {
  for (int i = 0; i < 4; i++) p[i] = static_cast<uint8_t>(value >> (8 * i));
}
inline void store_u64(uint8_t* p, uint64_t value) {
  store_u32(p, static_cast<uint32_t>(value));
  store_u32(p + 4, static_cast<uint32_t>(value >> 32));
}
inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace dtrain::data
