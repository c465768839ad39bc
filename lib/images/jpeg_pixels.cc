#include "images/jpeg_pixels.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

// Applied to functions, not to the whole file, because the program must run on processors without these instructions.
#define DT_AVX2 __attribute__((target("avx2")))

namespace dtrain::images {
namespace {

// Eight rows of eight 16-bit numbers from one block, and the same from another block.
struct Rows {
  __m256i row[8];
  DT_AVX2 __m256i& operator[](size_t y) { return row[y]; }
  DT_AVX2 const __m256i& operator[](size_t y) const { return row[y]; }
};

// Two sets of 32-bit sums of products: for the lower and for the upper four numbers of each block.
struct Wide {
  __m256i low, high;
};

// a * x + b * y, for constants with 13 fractional bits.
DT_AVX2 inline Wide weigh(__m256i x, __m256i y, int a, int b) {
  const __m256i weights = _mm256_set1_epi32((b << 16) | (a & 0xffff));
  return {_mm256_madd_epi16(_mm256_unpacklo_epi16(x, y), weights),
          _mm256_madd_epi16(_mm256_unpackhi_epi16(x, y), weights)};
}
DT_AVX2 inline Wide add(const Wide& a, const Wide& b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
DT_AVX2 inline Wide subtract(const Wide& a, const Wide& b) {
  return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}
// The numbers as 32-bit numbers, multiplied by 2^13.
DT_AVX2 inline Wide widen(__m256i x) {
  const __m256i zero = _mm256_setzero_si256();
  return {_mm256_srai_epi32(_mm256_unpacklo_epi16(zero, x), 3), _mm256_srai_epi32(_mm256_unpackhi_epi16(zero, x), 3)};
}
template <int bits>
DT_AVX2 inline __m256i round_off(const Wide& x) {
  const __m256i half = _mm256_set1_epi32(1 << (bits - 1));
  return _mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(x.low, half), bits),
                            _mm256_srai_epi32(_mm256_add_epi32(x.high, half), bits));
}

constexpr int k0_298 = 2446, k0_390 = 3196, k0_541 = 4433, k0_765 = 6270, k0_899 = 7373, k1_175 = 9633, k1_501 = 12299,
              k1_847 = 15137, k1_961 = 16069, k2_053 = 16819, k2_562 = 20995, k3_072 = 25172;

// The transform in one direction, over the rows.
template <int bits>
DT_AVX2 inline void transform(Rows& r) {
  const Wide even2 = weigh(r[2], r[6], k0_541, k0_541 - k1_847), even3 = weigh(r[2], r[6], k0_541 + k0_765, k0_541);
  const Wide even0 = widen(_mm256_add_epi16(r[0], r[4])), even1 = widen(_mm256_sub_epi16(r[0], r[4]));
  const Wide a0 = add(even0, even3), a3 = subtract(even0, even3), a1 = add(even1, even2), a2 = subtract(even1, even2);
  const __m256i z3 = _mm256_add_epi16(r[7], r[3]), z4 = _mm256_add_epi16(r[5], r[1]);
  const Wide s3 = weigh(z3, z4, k1_175 - k1_961, k1_175), s4 = weigh(z3, z4, k1_175, k1_175 - k0_390);
  const Wide b0 = add(weigh(r[7], r[1], k0_298 - k0_899, -k0_899), s3);
  const Wide b3 = add(weigh(r[7], r[1], -k0_899, k1_501 - k0_899), s4);
  const Wide b1 = add(weigh(r[5], r[3], k2_053 - k2_562, -k2_562), s4);
  const Wide b2 = add(weigh(r[5], r[3], -k2_562, k3_072 - k2_562), s3);
  r[0] = round_off<bits>(add(a0, b3));
  r[7] = round_off<bits>(subtract(a0, b3));
  r[1] = round_off<bits>(add(a1, b2));
  r[6] = round_off<bits>(subtract(a1, b2));
  r[2] = round_off<bits>(add(a2, b1));
  r[5] = round_off<bits>(subtract(a2, b1));
  r[3] = round_off<bits>(add(a3, b0));
  r[4] = round_off<bits>(subtract(a3, b0));
}

DT_AVX2 inline void transpose(Rows& r) {
  const Rows a = {{_mm256_unpacklo_epi16(r[0], r[1]), _mm256_unpackhi_epi16(r[0], r[1]),
                   _mm256_unpacklo_epi16(r[2], r[3]), _mm256_unpackhi_epi16(r[2], r[3]),
                   _mm256_unpacklo_epi16(r[4], r[5]), _mm256_unpackhi_epi16(r[4], r[5]),
                   _mm256_unpacklo_epi16(r[6], r[7]), _mm256_unpackhi_epi16(r[6], r[7])}};
  const Rows b = {{_mm256_unpacklo_epi32(a[0], a[2]), _mm256_unpackhi_epi32(a[0], a[2]),
                   _mm256_unpacklo_epi32(a[1], a[3]), _mm256_unpackhi_epi32(a[1], a[3]),
                   _mm256_unpacklo_epi32(a[4], a[6]), _mm256_unpackhi_epi32(a[4], a[6]),
                   _mm256_unpacklo_epi32(a[5], a[7]), _mm256_unpackhi_epi32(a[5], a[7])}};
  r = {{_mm256_unpacklo_epi64(b[0], b[4]), _mm256_unpackhi_epi64(b[0], b[4]), _mm256_unpacklo_epi64(b[1], b[5]),
        _mm256_unpackhi_epi64(b[1], b[5]), _mm256_unpacklo_epi64(b[2], b[6]), _mm256_unpackhi_epi64(b[2], b[6]),
        _mm256_unpacklo_epi64(b[3], b[7]), _mm256_unpackhi_epi64(b[3], b[7])}};
}

DT_AVX2 inline __m256i load_two(const void* low, const void* high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(low))),
                                 _mm_loadu_si128(static_cast<const __m128i*>(high)), 1);
}

// The transform in the first direction. `others` is not 0 in the columns in which a row other than the first has a
// coefficient. If a block has no such column, libjpeg-turbo copies the first row. The transform gives the same numbers,
// unless they are too large for 16 bits, which happens only in damaged files. In such files, a step that is 0 or large
// may also turn a nonzero coefficient into 0.
DT_AVX2 inline void transform_columns(Rows& r, __m256i others) {
  const auto is_flat = [](__m128i half) DT_AVX2 { return _mm_testz_si128(half, half) != 0; };
  const bool first = is_flat(_mm256_castsi256_si128(others)), second = is_flat(_mm256_extracti128_si256(others, 1));
  const __m256i copy = _mm256_slli_epi16(r[0], 2);
  if (first && second) {
    for (__m256i& row : r.row) row = copy;
    return;
  }
  transform<11>(r);
  if (first || second) {
    const __m256i mask = _mm256_set_epi64x(-int64_t{second}, -int64_t{second}, -int64_t{first}, -int64_t{first});
    for (__m256i& row : r.row) row = _mm256_blendv_epi8(row, copy, mask);
  }
}

DT_AVX2 inline void store_rows(const Rows& r, uint8_t* first, uint8_t* second, size_t stride) {
  const __m256i center = _mm256_set1_epi8(static_cast<char>(128));
  for (size_t y = 0; y < 8; y += 2) {
    const __m256i bytes = _mm256_add_epi8(_mm256_packs_epi16(r[y], r[y + 1]), center);
    const __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(first + y * stride), low);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(first + (y + 1) * stride), _mm_unpackhi_epi64(low, low));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(second + y * stride), high);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(second + (y + 1) * stride), _mm_unpackhi_epi64(high, high));
  }
}

// Fills a block that has a single coefficient: all of its samples are equal.
DT_AVX2 void fill_block(int16_t value, uint16_t step, uint8_t* out, size_t stride) {
  const auto scaled = static_cast<int16_t>(static_cast<uint32_t>(value * step) << 2);
  const int sample = std::min(127, std::max(-128, (scaled + 16) >> 5)) + 128;
  const auto row = static_cast<uint64_t>(sample) * 0x0101010101010101;
  for (size_t y = 0; y < 8; y++) std::memcpy(out + y * stride, &row, sizeof row);
}

}  // namespace

bool has_jpeg_pixels() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("bmi2") != 0;
}

DT_AVX2 void transform_blocks(const int16_t* first, const int16_t* second, const uint16_t* steps, int ends,
                              uint8_t* out_first, uint8_t* out_second, size_t stride) {
  if (ends <= 1) {
    fill_block(first[0], steps[0], out_first, stride);
    fill_block(second[0], steps[0], out_second, stride);
    return;
  }
  Rows rows;
  __m256i others = _mm256_setzero_si256();
  for (size_t y = 0; y < 8; y++) {
    const __m256i coefficients = load_two(first + 8 * y, second + 8 * y);
    if (y > 0) others = _mm256_or_si256(others, coefficients);
    rows[y] = _mm256_mullo_epi16(coefficients, load_two(steps + 8 * y, steps + 8 * y));
  }
  transform_columns(rows, others);
  transpose(rows);
  transform<18>(rows);
  transpose(rows);
  store_rows(rows, out_first, out_second, stride);
}

namespace {

// Doubles the width of a row. `sums` has one number before and one after the row. Each number gives two samples: (3 s +
// neighbor + rounding) / 2^shift.
template <int shift>
DT_AVX2 void widen_row(const int16_t* sums, size_t count, uint8_t* out) {
  const __m256i three = _mm256_set1_epi16(3);
  const __m256i round_left = _mm256_set1_epi16(shift == 4 ? 8 : 1), round_right = _mm256_set1_epi16(shift == 4 ? 7 : 2);
  for (size_t x = 0; x < count; x += 16) {
    const auto at = [&](size_t i) DT_AVX2 { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + i)); };
    const __m256i own = _mm256_mullo_epi16(at(x + 1), three);
    const __m256i left = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(own, at(x)), round_left), shift);
    const __m256i right = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(own, at(x + 2)), round_right), shift);
    const __m256i both = _mm256_or_si256(left, _mm256_slli_epi16(right, 8));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 2 * x), both);
  }
}

DT_AVX2 inline __m256i load_wide(const uint8_t* bytes) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}

void repeat_ends(int16_t* sums, size_t count) {
  sums[0] = sums[1];
  sums[count + 1] = sums[count];
}

}  // namespace

DT_AVX2 void upsample_row(const uint8_t* in, size_t count, int16_t* sums, uint8_t* out) {
  for (size_t x = 0; x < count; x += 16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + 1 + x), load_wide(in + x));
  }
  repeat_ends(sums, count);
  widen_row<2>(sums, count, out);
}

DT_AVX2 void upsample_rows(const uint8_t* near, const uint8_t* far, size_t count, int16_t* sums, uint8_t* out) {
  const __m256i three = _mm256_set1_epi16(3);
  for (size_t x = 0; x < count; x += 16) {
    const __m256i sum = _mm256_add_epi16(_mm256_mullo_epi16(load_wide(near + x), three), load_wide(far + x));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + 1 + x), sum);
  }
  repeat_ends(sums, count);
  widen_row<4>(sums, count, out);
}

namespace {

// How 16 bytes of each color are moved to the order in which they are stored, as three vectors of 16 bytes.
struct Interleaving {
  // Indexed by color and vector: for each byte of the vector, the pixel whose color belongs there; -1: the byte belongs
  // to another color.
  std::array<std::array<int8_t, 16>, 9> from;
};
constexpr Interleaving make_interleaving() {
  Interleaving result{};
  for (size_t color = 0; color < 3; color++) {
    for (size_t at = 0; at < 48; at++) {
      result.from[color * 3 + at / 16][at % 16] = at % 3 == color ? static_cast<int8_t>(at / 3) : int8_t{-1};
    }
  }
  return result;
}
alignas(16) constexpr Interleaving kInterleaving = make_interleaving();

DT_AVX2 inline void store_bgr(__m128i blue, __m128i green, __m128i red, uint8_t* out) {
  const auto part = [](size_t number) DT_AVX2 {
    return _mm_load_si128(reinterpret_cast<const __m128i*>(kInterleaving.from[number].data()));
  };
  for (size_t i = 0; i < 3; i++) {
    const __m128i bytes =
        _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(blue, part(i)), _mm_shuffle_epi8(green, part(3 + i))),
                     _mm_shuffle_epi8(red, part(6 + i)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 16 * i), bytes);
  }
}

DT_AVX2 inline __m128i to_bytes(__m256i x) {
  return _mm_packus_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}

// (factor * x + 2^15) / 2^16.
DT_AVX2 inline __m256i scaled(__m256i x, int16_t factor) {
  const __m256i product = _mm256_mulhi_epi16(_mm256_add_epi16(x, x), _mm256_set1_epi16(factor));
  return _mm256_srai_epi16(_mm256_add_epi16(product, _mm256_set1_epi16(1)), 1);
}

// The factors of JFIF, with 16 fractional bits: 1.402, 0.34414, 0.71414 and 1.772. Those that do not fit into a signed
// 16-bit number are split: 1.402 = 1 + 0.402, 0.71414 = 1 - 0.28586, 1.772 = 2 - 0.228.
DT_AVX2 inline void convert_16(const uint8_t* luma, const uint8_t* blue_difference, const uint8_t* red_difference,
                               uint8_t* out) {
  const __m256i center = _mm256_set1_epi16(128);
  const __m256i y = load_wide(luma);
  const __m256i cb = _mm256_sub_epi16(load_wide(blue_difference), center);
  const __m256i cr = _mm256_sub_epi16(load_wide(red_difference), center);
  const __m256i blue = _mm256_add_epi16(_mm256_add_epi16(y, _mm256_add_epi16(cb, cb)), scaled(cb, -14942));
  const __m256i red = _mm256_add_epi16(_mm256_add_epi16(y, cr), scaled(cr, 26345));
  const __m256i weights = _mm256_set1_epi32((18734 << 16) | (-22554 & 0xffff)), half = _mm256_set1_epi32(1 << 15);
  const __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(cb, cr), weights);
  const __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(cb, cr), weights);
  const __m256i both = _mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(low, half), 16),
                                          _mm256_srai_epi32(_mm256_add_epi32(high, half), 16));
  const __m256i green = _mm256_add_epi16(y, _mm256_sub_epi16(both, cr));
  store_bgr(to_bytes(blue), to_bytes(green), to_bytes(red), out);
}

}  // namespace

DT_AVX2 void to_bgr(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, size_t count, uint8_t* out) {
  size_t x = 0;
  for (; x + 16 <= count; x += 16) convert_16(y + x, cb + x, cr + x, out + 3 * x);
  if (x == count) return;
  std::array<uint8_t, 48> last;
  convert_16(y + x, cb + x, cr + x, last.data());
  std::memcpy(out + 3 * x, last.data(), 3 * (count - x));
}

}  // namespace dtrain::images
