// Reads the coefficients of a baseline JPEG: decodes Huffman codes into blocks of 8 x 8 numbers.
//
// libjpeg-turbo looks up a code of up to 8 bits and reads the coefficient's bits in a second step. Here a single
// look-up of kPeekBits bits yields both, and in photographs of good quality more than half of the look-ups yield two
// coefficients.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace dtrain::images {

// A Huffman table as it is stored in a file.
struct HuffmanCode {
  const uint8_t* counts = nullptr;   // 17 numbers: counts[n] is the number of codes of n bits; counts[0] is unused
  const uint8_t* symbols = nullptr;  // up to 256 symbols, in the order of their codes
};

class HuffmanTable {
 public:
  static constexpr int kPeekBits = 10;
  // What the next kPeekBits bits mean: one coefficient, or two in tables for AC. If `bits` is 0, use
  // length_and_symbol().
  struct Entry {
    int16_t value, value_2;  // values of the coefficients; equal if there is only one
    // Distance of each coefficient from the one before it; kEndOfBlock: there is no coefficient, because the block
    // ends.
    uint8_t skip, skip_2;
    uint8_t bits_1;  // length of the first code and its value
    uint8_t bits;    // length of all codes and values
  };
  static constexpr int kEndOfBlock = 128;

  // Makes the table for a code. False if the codes are not valid. Does nothing if they equal those of the last call.
  bool make(const HuffmanCode& code, bool is_dc);

  [[nodiscard]] const Entry& entry(uint32_t peek) const { return entries_[peek]; }
  // For a code that does not fit into kPeekBits together with its value: takes the next 16 bits, and returns the length
  // of the code times 256 plus its symbol, or 0 if there is no such code.
  [[nodiscard]] int length_and_symbol(uint32_t next16) const;

 private:
  bool assign_codes();
  void fill_entries();
  void pair_entries();

  bool is_valid_ = false, is_dc_ = false;
  std::array<uint8_t, 17> counts_ = {};
  std::array<uint8_t, 256> symbols_ = {};
  std::array<Entry, 1 << kPeekBits> entries_ = {};
  std::array<uint16_t, 1 << kPeekBits> short_codes_ = {};  // length_and_symbol() of the codes of up to kPeekBits bits
  std::array<uint32_t, 18> end_ = {};      // the end of the codes of each length, left-aligned in 16 bits
  std::array<int, 17> first_symbol_ = {};  // symbols_[first_symbol_[n] + code] is the symbol of a code of n bits
};

// The blocks of one component in a few MCUs of a row.
struct JpegBlocks {
  static constexpr size_t kSize = 64;
  int per_row = 0;                   // number of blocks in a row
  std::vector<int16_t> values = {};  // the blocks' numbers, as [rows of blocks][per_row][kSize], each block row by row
  std::vector<uint8_t> ends = {};    // for each block, the position from which on its values, in zigzag order, are 0
  void resize(int blocks_per_row, int rows) {
    per_row = blocks_per_row;
    const auto count = static_cast<size_t>(blocks_per_row) * static_cast<size_t>(rows);
    values.resize(count * kSize);
    ends.resize(count);
  }
};

class JpegScan {
 public:
  struct Component {
    int h = 1, v = 1;  // number of blocks in an MCU, horizontally and vertically
    const HuffmanTable* dc = nullptr;
    const HuffmanTable* ac = nullptr;
    JpegBlocks* blocks = nullptr;
    int last_dc = 0;
  };

  // Begins a scan whose data are at the start of `bytes`. Borrows the bytes, the tables and the blocks.
  void start(Bytes bytes, std::vector<Component> components, int restart_interval);
  // After start(): skips the data before the restart marker number `count`, counted from 1, without decoding them.
  // False in the same cases as read().
  bool skip_restarts(int count);
  // Reads the next MCUs into the components' blocks. False if the data are damaged or unusual; another decoder should
  // then decode the file.
  bool read(int mcus);
  // After the last row: true if the file ends as it should.
  [[nodiscard]] bool ends_well() const { return marker_ == kEndOfImage; }

 private:
  static constexpr int kEndOfImage = 0xd9, kRestart = 0xd0;
  bool next_segment();
  bool restart();

  std::vector<Component> components_;
  int restart_interval_ = 0;
  int until_restart_ = 0, restarts_ = 0;
  Bytes rest_;                    // rest of the file after the segment
  int marker_ = 0;                // the marker after the segment; 0: the file ends there
  std::vector<uint8_t> segment_;  // the data up to the next marker, without stuffed zeros, followed by kPadding zeros
  const uint8_t* segment_end_ = nullptr;
  // The next bits: `count_` of them are at the upper end of `buffer_`; the bits after them begin at `at_`.
  const uint8_t* at_ = nullptr;
  uint64_t buffer_ = 0;
  int count_ = 0;
};

}  // namespace dtrain::images
