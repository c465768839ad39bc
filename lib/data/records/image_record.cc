#include "data/records/image_record.h"

#include <bit>

namespace dtrain::data {

float ImageRecord::label_at(size_t i) const {
  return flag == 0 ? label : std::bit_cast<float>(load_u32(labels.data() + 4 * i));
}

Result<ImageRecord> parse_image_record(Bytes payload) {
  if (static_cast<int64_t>(payload.size()) < ImageRecord::kHeaderBytes) {
    return fail(Code::kData, "the record has {} bytes, fewer than an image record's header", payload.size());
  }
  ImageRecord record{.flag = load_u32(payload.data()),
                     .label = std::bit_cast<float>(load_u32(payload.data() + 4)),
                     .id = load_u64(payload.data() + 8),
                     .labels = {},
                     .image = payload.subspan(ImageRecord::kHeaderBytes)};
  if (record.image.size() / 4 < record.flag) {
    return fail(Code::kData, "the record's header announces {} labels, but only {} bytes follow", record.flag,
                record.image.size());
  }
  record.labels = record.image.first(size_t{4} * record.flag);
  record.image = record.image.subspan(record.labels.size());
  return record;
}

void append_image_record(std::vector<uint8_t>& out, uint64_t id, std::span<const float> labels, Bytes image) {
  const size_t begin = out.size();
  const size_t extra = labels.size() > 1 ? labels.size() : 0;
  out.resize(begin + ImageRecord::kHeaderBytes + 4 * extra);
  uint8_t* header = out.data() + begin;
  store_u32(header, static_cast<uint32_t>(extra));
  store_u32(header + 4, std::bit_cast<uint32_t>(labels.empty() ? 0.0f : labels[0]));
  store_u64(header + 8, id);
  store_u64(header + 16, 0);
  for (size_t i = 0; i < extra; i++) store_u32(header + 24 + 4 * i, std::bit_cast<uint32_t>(labels[i]));
  out.insert(out.end(), image.begin(), image.end());
}

}  // namespace dtrain::data
