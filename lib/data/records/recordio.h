// RecordIO, as MXNet writes it (docs/formats.md, "RecordIO"). A file is a sequence of parts; each consists of the
// magic, the word (flag << 29 | length), the payload, and zero bytes up to a multiple of 4. A record is one part (flag
// 0) or several (flags 1, 2 ..., 3). A payload that contains the magic at a multiple of 4 is split there: the writer
// leaves out these four bytes, and the reader inserts them again between the two parts.
//
// This file handles bytes in memory; record_file.h reads files. Source: dmlc-core src/recordio.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace dtrain::data {

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
PartHeader parse_part_header(Bytes word_pair);  // `word_pair` must have at least 8 bytes

// Appends a record with this payload. Code::kData if the payload is too long for a part (2^29 bytes).
Result<> append_record(std::vector<uint8_t>& out, Bytes payload);

// The first position p >= `from`, a multiple of 4, at which a record begins in `bytes`; bytes.size() if there is none.
// `bytes` must begin at a multiple of 4 in the file.
int64_t find_record_start(Bytes bytes, int64_t from);

}  // namespace dtrain::data
