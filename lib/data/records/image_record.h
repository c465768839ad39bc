// The contents of a record of an image set (docs/formats.md, "Image records"): u32 flag, f32 label, u64 id, u64 id2,
// `flag` f32 labels, then the encoded image to the end. If flag is 0, the only label is the one in the header; if flag
// is n > 0, n labels follow the header. Source: MXNet src/io/image_recordio.h, python/mxnet/recordio.py.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "data/records/recordio.h"

namespace dtrain::data {

// A view into the payload of a record.
struct ImageRecord {
  static constexpr int64_t kHeaderBytes = 24;
  uint32_t flag = 0;
  float label = 0;  // the label in the header
  uint64_t id = 0;
  Bytes labels;  // the labels after the header, in 4 bytes each
  Bytes image;

  [[nodiscard]] float label_at(size_t i) const;  // label number i, which must be below max(flag, 1)
};

// Code::kData if the payload is shorter than its header says.
Result<ImageRecord> parse_image_record(Bytes payload);

// Appends the payload of one image. A single label goes into the header. Several labels follow the header, and the
// first one is also in the header, as im2rec.cc writes it.
void append_image_record(std::vector<uint8_t>& out, uint64_t id, std::span<const float> labels, Bytes image);

}  // namespace dtrain::data
