#include "data/records/recordio.h"

#include <emmintrin.h>

namespace dtrain::data {
namespace {

void append_part(std::vector<uint8_t>& out, uint32_t flag, Bytes payload) {
  uint8_t header[PartHeader::kBytes];
  store_u32(header, kRecordMagic);
  store_u32(header + 4, flag << 29 | static_cast<uint32_t>(payload.size()));
  out.insert(out.end(), header, header + sizeof header);
  out.insert(out.end(), payload.begin(), payload.end());
  while (out.size() % 4 != 0) out.push_back(0);
}

// The first position at or after `from`, both multiples of 4, at which the payload contains the magic; otherwise the
// payload's size. Compares 16 words at a time, so that there are few branches.
size_t find_magic(Bytes payload, size_t from) {
  const auto matches = [&](size_t at) { return load_u32(payload.data() + at) == kRecordMagic; };
  const __m128i magic = _mm_set1_epi32(static_cast<int>(kRecordMagic));
  const auto four = [&](size_t at) {
    return _mm_cmpeq_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(payload.data() + at)), magic);
  };
  for (; from + 64 <= payload.size(); from += 64) {
    const __m128i found =
        _mm_or_si128(_mm_or_si128(four(from), four(from + 16)), _mm_or_si128(four(from + 32), four(from + 48)));
    if (_mm_movemask_epi8(found) != 0) break;
  }
  for (; from + 4 <= payload.size(); from += 4) {
    if (matches(from)) return from;
  }
  return payload.size();
}

}  // namespace

PartHeader parse_part_header(Bytes word_pair) {
  const uint32_t second = load_u32(word_pair.data() + 4);
  return {.magic = load_u32(word_pair.data()), .flag = second >> 29, .length = second & kPartBytesMax};
}

Result<> append_record(std::vector<uint8_t>& out, Bytes payload) {
  if (static_cast<int64_t>(payload.size()) > kPartBytesMax) {
    return fail(Code::kData, "the record has {} bytes; RecordIO allows at most {}", payload.size(), kPartBytesMax);
  }
  size_t begin = 0;
  uint32_t flag = 0;
  for (size_t i = find_magic(payload, 0); i < payload.size(); i = find_magic(payload, begin)) {
    flag = begin == 0 && flag == 0 ? 1 : 2;
    append_part(out, flag, payload.subspan(begin, i - begin));
    begin = i + 4;
  }
  append_part(out, flag == 0 ? 0 : 3, payload.subspan(begin));
  return {};
}

int64_t find_record_start(Bytes bytes, int64_t from) {
  const auto size = static_cast<int64_t>(bytes.size());
  for (int64_t p = (from + 3) / 4 * 4; p + PartHeader::kBytes <= size; p += 4) {
    if (parse_part_header(bytes.subspan(static_cast<size_t>(p))).begins_record()) return p;
  }
  return size;
}

}  // namespace dtrain::data
