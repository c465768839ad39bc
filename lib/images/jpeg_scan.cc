#include "images/jpeg_scan.h"

#include <algorithm>
#include <cstring>
#include <utility>

// With BMI2, a shift by a variable number of bits takes one instruction instead of three. The attribute is applied to
// functions, not to the whole file, because the program must run on processors without BMI2.
#define DT_BMI2 __attribute__((target("bmi2")))

namespace dtrain::images {
namespace {

// Maps a position in the order of the file to the position in row order.
constexpr std::array<uint8_t, JpegBlocks::kSize> kZigzag = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

// The number of zeros after the data. A block takes at most 64 times 31 bits, and decoding never begins a block after
// the end of the data, so each block ends within these zeros.
constexpr size_t kPadding = 64 * 4 + 32;

// The number that `size` bits encode. The upper half of their range is for positive numbers, the lower half for
// negative ones.
int extend(uint32_t bits, int size) {
  const int value = static_cast<int>(bits);
  return size > 0 && value < (1 << (size - 1)) ? value - (1 << size) + 1 : value;
}

}  // namespace

bool HuffmanTable::make(const HuffmanCode& code, bool is_dc) {
  const bool same = is_dc == is_dc_ && std::equal(counts_.begin() + 1, counts_.end(), code.counts + 1) &&
                    std::equal(symbols_.begin(), symbols_.end(), code.symbols);
  if (same) return is_valid_;
  is_dc_ = is_dc;
  std::copy(code.counts, code.counts + counts_.size(), counts_.begin());
  std::copy(code.symbols, code.symbols + symbols_.size(), symbols_.begin());
  is_valid_ = assign_codes();
  if (is_valid_) fill_entries();
  if (is_valid_ && !is_dc) pair_entries();
  return is_valid_;
}

// Assigns the codes. Codes of one length are consecutive; the first code of the next length is twice the code that
// would follow.
bool HuffmanTable::assign_codes() {
  uint32_t code = 0;
  size_t symbol = 0;
  short_codes_.fill(0);
  for (int length = 1; length <= 16; length++, code <<= 1) {
    first_symbol_[static_cast<size_t>(length)] = static_cast<int>(symbol) - static_cast<int>(code);
    for (int i = 0; i < counts_[static_cast<size_t>(length)]; i++, code++, symbol++) {
      if (symbol == symbols_.size() || (is_dc_ && symbols_[symbol] > 15)) return false;
      if (length > kPeekBits) continue;
      const uint32_t copies = 1U << (kPeekBits - length), begin = code * copies;
      if (begin + copies > short_codes_.size()) return false;
      std::fill_n(short_codes_.begin() + begin, copies, static_cast<uint16_t>(length << 8 | symbols_[symbol]));
    }
    const bool any = counts_[static_cast<size_t>(length)] > 0;
    if (any && code >= (1U << length)) return false;  // a code that consists only of ones is not allowed
    end_[static_cast<size_t>(length)] = code << (16 - length);
  }
  end_[17] = UINT32_MAX;
  return true;
}

void HuffmanTable::fill_entries() {
  for (uint32_t peek = 0; peek < entries_.size(); peek++) {
    Entry& entry = entries_[peek];
    entry = {};
    const int length = short_codes_[peek] >> 8, symbol = short_codes_[peek] & 0xff;
    const int run = symbol >> 4, size = symbol & 15, bits = length + size;
    if (length == 0 || bits > kPeekBits) continue;
    entry.bits = entry.bits_1 = static_cast<uint8_t>(bits);
    entry.skip = static_cast<uint8_t>(!is_dc_ && size == 0 && run != 15 ? kEndOfBlock : run + 1);
    entry.value = static_cast<int16_t>(extend((peek >> (kPeekBits - bits)) & ((1U << size) - 1), size));
    entry.value_2 = entry.value;
  }
}

// Adds the second coefficients. The bits after those of the first coefficient, padded with zeros, are the index of
// another entry. The first coefficient of that entry becomes the second one here if all of its bits are known, that is,
// if none of them is padding.
void HuffmanTable::pair_entries() {
  for (uint32_t peek = 0; peek < entries_.size(); peek++) {
    Entry& entry = entries_[peek];
    if (entry.bits == 0 || entry.skip == kEndOfBlock) continue;
    const Entry& next = entries_[(peek << entry.bits_1) & (entries_.size() - 1)];
    const int bits = entry.bits_1 + next.bits_1;
    if (next.bits_1 == 0 || bits > kPeekBits) continue;
    entry.value_2 = next.value;
    entry.skip_2 = next.skip;
    entry.bits = static_cast<uint8_t>(bits);
  }
}

int HuffmanTable::length_and_symbol(uint32_t next16) const {
  if (const int found = short_codes_[next16 >> (16 - kPeekBits)]; found != 0) return found;
  size_t length = kPeekBits + 1;
  while (next16 >= end_[length]) length++;
  if (length > 16) return 0;
  const int at = first_symbol_[length] + static_cast<int>(next16 >> (16 - length));
  return static_cast<int>(length) << 8 | symbols_[static_cast<size_t>(at) & 0xff];
}

void JpegScan::start(Bytes bytes, std::vector<Component> components, int restart_interval) {
  components_ = std::move(components);
  restart_interval_ = restart_interval;
  rest_ = bytes;
  if (segment_.size() < bytes.size() + kPadding) segment_.resize(bytes.size() + kPadding);
  until_restart_ = restarts_ = 0;
  segment_end_ = nullptr;
}

// Copies the data up to the next marker. Returns false for data that no encoder writes.
bool JpegScan::next_segment() {
  uint8_t* out = segment_.data();
  marker_ = 0;
  while (marker_ == 0 && !rest_.empty()) {
    const void* const found = std::memchr(rest_.data(), 0xff, rest_.size());
    const size_t plain =
        found == nullptr ? rest_.size() : static_cast<size_t>(static_cast<const uint8_t*>(found) - rest_.data());
    std::memcpy(out, rest_.data(), plain);
    out += plain;
    if (plain + 2 > rest_.size()) {
      rest_ = {};
      break;
    }
    const uint8_t after = rest_[plain + 1];
    if (after == 0xff) return false;
    if (after == 0) *out++ = 0xff;
    marker_ = after;
    rest_ = rest_.subspan(plain + 2);
  }
  segment_end_ = out;
  std::memset(out, 0, kPadding);
  at_ = segment_.data();
  buffer_ = 0;
  count_ = 0;
  for (Component& component : components_) component.last_dc = 0;
  return true;
}

// Skips to a restart marker. If markers are in another order, or there are other markers, the file is left to
// libjpeg-turbo, which handles them.
bool JpegScan::skip_restarts(int count) {
  while (restarts_ < count) {
    const void* const found = rest_.empty() ? nullptr : std::memchr(rest_.data(), 0xff, rest_.size());
    if (found == nullptr) return false;
    const auto at = static_cast<size_t>(static_cast<const uint8_t*>(found) - rest_.data());
    if (at + 2 > rest_.size()) return false;
    const int after = rest_[at + 1];
    rest_ = rest_.subspan(at + 2);
    if (after == 0) continue;  // after 0xff, a 0 marks the byte 0xff as data, not as a marker
    if (after != kRestart + restarts_++ % 8) return false;
  }
  return true;
}

bool JpegScan::restart() {
  const bool first = segment_end_ == nullptr;
  if (!first && (restart_interval_ == 0 || marker_ != kRestart + restarts_++ % 8)) return false;
  until_restart_ = restart_interval_ > 0 ? restart_interval_ : INT32_MAX;
  return next_segment();
}

namespace {

// The next bits of a segment: `count` of them are at the upper end of `buffer`; the bits after them begin at `at`.
struct BitReader {
  const uint8_t* at;
  uint64_t buffer;
  int count;

  // Fills the buffer to at least 56 bits.
  void fill() {
    uint64_t next = 0;
    std::memcpy(&next, at, sizeof next);
    buffer |= __builtin_bswap64(next) >> count;
    at += (63 - count) >> 3;
    count |= 56;
  }
  [[nodiscard]] uint32_t peek(int bits) const { return static_cast<uint32_t>(buffer >> (64 - bits)); }
  void drop(int bits) {
    buffer <<= bits;
    count -= bits;
  }
  // Reads a code that the table of short codes does not contain. Returns false if there is no such code.
  bool read_long(const HuffmanTable& table, int& symbol, int& value) {
    const int found = table.length_and_symbol(peek(16));
    if (found == 0) return false;
    drop(found >> 8);
    symbol = found & 0xff;
    const int size = symbol & 15;
    value = size == 0 ? 0 : extend(peek(size), size);
    drop(size);
    return true;
  }
};

bool read_dc(BitReader& bits, const HuffmanTable& table, int& last_dc) {
  bits.fill();
  const HuffmanTable::Entry& entry = table.entry(bits.peek(HuffmanTable::kPeekBits));
  int difference = entry.value;
  if (entry.bits != 0) {
    bits.drop(entry.bits);
  } else if (int symbol = 0; !bits.read_long(table, symbol, difference)) {
    return false;
  }
  last_dc += difference;
  return last_dc == static_cast<int16_t>(last_dc);
}

// Handles an entry that ends the block or cannot be decoded. Returns the same as read_ac().
int end_block(BitReader& bits, const HuffmanTable::Entry& entry, int end, int16_t* block) {
  constexpr int kEndOfBlock = HuffmanTable::kEndOfBlock;
  bits.drop(entry.bits_1);
  if (entry.skip == kEndOfBlock) return end;
  end += entry.skip;
  if (end > 64) return 0;
  block[kZigzag[static_cast<size_t>(end) - 1]] = entry.value;
  if (end == 64) return end;  // the block is full, so a second coefficient of the entry would belong to the next block
  bits.drop(entry.bits - entry.bits_1);
  if (entry.skip_2 == kEndOfBlock) return end;
  end += entry.skip_2;
  if (end > 64) return 0;
  block[kZigzag[static_cast<size_t>(end) - 1]] = entry.value_2;
  return end;
}

// Adds the AC coefficients to a block of zeros. Returns their end in zigzag order, or 0 if they do not decode.
//
// Filling the reader takes twice as long as a look-up, because the address of the next bits depends on the lengths of
// the codes before them. The bits of one filling are enough for five look-ups.
int read_ac(BitReader& bits, const HuffmanTable& table, int16_t* block) {
  constexpr int kLookUps = 5;
  static_assert(kLookUps * HuffmanTable::kPeekBits <= 56);
  int end = 1;
  while (true) {
    bits.fill();
    for (int i = 0; i < kLookUps; i++) {
      HuffmanTable::Entry entry = table.entry(bits.peek(HuffmanTable::kPeekBits));
      if (entry.bits == 0) [[unlikely]] {
        bits.fill();
        int symbol = 0, value = 0;
        if (!bits.read_long(table, symbol, value)) return 0;
        const bool ends = (symbol & 15) == 0 && symbol != 0xf0;
        entry.value = entry.value_2 = static_cast<int16_t>(value);
        entry.skip = static_cast<uint8_t>(ends ? HuffmanTable::kEndOfBlock : (symbol >> 4) + 1);
        i = kLookUps;
      }
      const int first = end + entry.skip, second = first + entry.skip_2;
      if (second >= 64) return end_block(bits, entry, end, block);
      bits.drop(entry.bits);
      block[kZigzag[static_cast<size_t>(first) - 1]] = entry.value;
      block[kZigzag[static_cast<size_t>(second) - 1]] = entry.value_2;
      end = second;
    }
  }
}

}  // namespace

DT_BMI2 bool JpegScan::read(int mcus) {
  for (const Component& component : components_) std::ranges::fill(component.blocks->values, int16_t{0});
  for (int mcu = 0; mcu < mcus; mcu++) {
    if (until_restart_ == 0 && !restart()) return false;
    until_restart_--;
    BitReader bits{.at = at_, .buffer = buffer_, .count = count_};
    for (Component& component : components_) {
      for (int block = 0; block < component.h * component.v; block++) {
        const int row = block / component.h, column = mcu * component.h + block % component.h;
        const int number = row * component.blocks->per_row + column;
        int16_t* const values = component.blocks->values.data() + static_cast<size_t>(number) * JpegBlocks::kSize;
        if (!read_dc(bits, *component.dc, component.last_dc)) return false;
        values[0] = static_cast<int16_t>(component.last_dc);
        const int end = read_ac(bits, *component.ac, values);
        // After the end of the data there are zeros, which may decode like codes.
        if (end == 0 || (bits.at - segment_end_) * 8 > bits.count) return false;
        component.blocks->ends[static_cast<size_t>(number)] = static_cast<uint8_t>(end);
      }
    }
    at_ = bits.at;
    buffer_ = bits.buffer;
    count_ = bits.count;
  }
  return true;
}

}  // namespace dtrain::images
