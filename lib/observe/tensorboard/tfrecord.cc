#include "observe/tensorboard/tfrecord.h"

#include <bit>
#include <span>

#include "base/crc32c.h"

namespace dtrain::observe {
namespace {

void append_little_endian(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) out += static_cast<char>(value >> (8 * i) & 0xff);
}

}  // namespace

uint32_t masked_crc32c(std::string_view data) {
  constexpr int kRotation = 15;
  constexpr uint32_t kDelta = 0xa282ead8;
  return std::rotr(crc32c(std::as_bytes(std::span(data))), kRotation) + kDelta;
}

std::string tfrecord(std::string_view data) {
  std::string record;
  record.reserve(data.size() + 16);
  append_little_endian(record, data.size(), 8);
  append_little_endian(record, masked_crc32c(record), 4);
  record += data;
  append_little_endian(record, masked_crc32c(data), 4);
  return record;
}

}  // namespace dtrain::observe
