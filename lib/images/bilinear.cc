#include "images/bilinear.h"

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dtrain::images {
namespace {

constexpr int kWeightBits = 11, kOne = 1 << kWeightBits;
// Vector code may read and write this many elements beyond the last one.
constexpr size_t kSlack = 16;

// The position in the source that corresponds to the center of pixel `i` along an edge. Uses float and double in the
// same places as OpenCV.
float source_of(int i, double scale) {
  return static_cast<float>((i + 0.5) * scale - 0.5);
}

double scale_of(int64_t from, int64_t to) {
  const double inverse = static_cast<double>(to) / static_cast<double>(from);
  return 1.0 / inverse;
}

int16_t weight_of(float fraction) {
  return static_cast<int16_t>(std::lrintf(fraction * kOne));
}

// How pixels beyond the border are interpolated. Columns: only the border's pixel is used. Rows: the border's row is
// used twice, with the usual weights.
enum class AtBorder { kOneTap, kSameTwice };

void make_taps(int64_t from, int64_t to, int begin, int count, AtBorder at_border, LinearTaps& taps) {
  const double scale = scale_of(from, to);
  const int last = static_cast<int>(from) - 1;
  const auto size = static_cast<size_t>(count);
  taps.first.resize(size);
  taps.second.resize(size);
  taps.weight.resize(size);
  for (int i = 0; i < count; i++) {
    const float position = source_of(begin + i, scale);
    int before = static_cast<int>(std::floor(position));
    float fraction = position - static_cast<float>(before);
    int after = before + 1;
    if (at_border == AtBorder::kOneTap && (before < 0 || before >= last)) {
      before = after = std::clamp(before, 0, last);
      fraction = 0;
    }
    const auto at = static_cast<size_t>(i);
    taps.first[at] = std::clamp(before, 0, last);
    taps.second[at] = std::clamp(after, 0, last);
    taps.weight[at] = {weight_of(1.0f - fraction), weight_of(fraction)};
  }
}

// Resizes one row of 3-byte pixels. The sums have 19 bits, of which OpenCV's second pass uses the upper 15. Reads 8
// bytes at each first pixel. The second pixel is its neighbor, or has the weight 0.
void widen3(const uint8_t* row, const LinearTaps& columns, int left, size_t begin, int16_t* out) {
  const __m128i zero = _mm_setzero_si128();
  for (size_t x = begin; x < columns.first.size(); x++, out += 3) {
    const uint8_t* const first = row + ptrdiff_t{3} * (columns.first[x] - left);
    int32_t weights = 0;
    std::memcpy(&weights, &columns.weight[x], sizeof weights);
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(first));
    const __m128i pairs = _mm_unpacklo_epi8(_mm_unpacklo_epi8(bytes, _mm_srli_epi64(bytes, 24)), zero);
    const __m128i sums = _mm_srli_epi32(_mm_madd_epi16(pairs, _mm_set1_epi32(weights)), 4);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out), _mm_packs_epi32(sums, sums));
  }
}

// Like widen3, for four pixels at a time, two in each half of a register. Reads 16 bytes at each first pixel.
__attribute__((target("avx2"))) size_t widen3_by_four(const uint8_t* row, const LinearTaps& columns, int left,
                                                      int16_t* out) {
  const __m256i pairs =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
  const __m256i dense =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, -1, -1, -1, -1));
  const int* const first = columns.first.data();
  const auto sums_of = [&](size_t x, size_t other) __attribute__((target("avx2"))) {
    const auto pixel = [&](size_t i) __attribute__((target("avx2"))) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + ptrdiff_t{3} * (first[i] - left)));
    };
    const auto weights = [&](size_t i) __attribute__((target("avx2"))) {
      int32_t both = 0;
      std::memcpy(&both, &columns.weight[i], sizeof both);
      return _mm256_set1_epi32(both);
    };
    const __m256i pixels = _mm256_inserti128_si256(_mm256_castsi128_si256(pixel(x)), pixel(other), 1);
    const __m256i sums =
        _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, pairs), _mm256_blend_epi32(weights(x), weights(other), 0xf0));
    return _mm256_srli_epi32(sums, 4);
  };
  const size_t count = columns.first.size() / 4 * 4;
  for (size_t x = 0; x < count; x += 4, out += 12) {
    const __m256i sums = _mm256_shuffle_epi8(_mm256_packs_epi32(sums_of(x, x + 2), sums_of(x + 1, x + 3)), dense);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(sums));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 6), _mm256_extracti128_si256(sums, 1));
  }
  return count;
}

void widen(const uint8_t* row, const LinearTaps& columns, int left, int channels, int16_t* out) {
  for (size_t x = 0; x < columns.first.size(); x++) {
    const uint8_t* first = row + ptrdiff_t{channels} * (columns.first[x] - left);
    const uint8_t* second = row + ptrdiff_t{channels} * (columns.second[x] - left);
    const auto [w0, w1] = columns.weight[x];
    for (int k = 0; k < channels; k++) *out++ = static_cast<int16_t>((first[k] * w0 + second[k] * w1) >> 4);
  }
}

// The second pass: (a w0 + b w1) / 2^18. Each product is rounded down to 2 fractional bits, and the sum is rounded to
// the nearest integer.
void blend(const int16_t* a, const int16_t* b, std::array<int16_t, 2> weight, size_t count, uint8_t* out) {
  const __m128i w0 = _mm_set1_epi16(weight[0]), w1 = _mm_set1_epi16(weight[1]), half = _mm_set1_epi16(2);
  const auto eight = [&](size_t i) {
    const __m128i from_a = _mm_mulhi_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a + i)), w0);
    const __m128i from_b = _mm_mulhi_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b + i)), w1);
    return _mm_srai_epi16(_mm_add_epi16(_mm_add_epi16(from_a, from_b), half), 2);
  };
  for (size_t i = 0; i < count; i += 16) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm_packus_epi16(eight(i), eight(i + 8)));
  }
}

}  // namespace

Window BilinearRows::needed(const ImageSize& from, const ImageSize& to, const Window& wanted) {
  const auto range = [](int64_t source, int64_t target, int begin, int count) {
    const double scale = scale_of(source, target);
    const int last = static_cast<int>(source) - 1;
    const int first = std::clamp(static_cast<int>(std::floor(source_of(begin, scale))), 0, last);
    const int end = std::clamp(static_cast<int>(std::floor(source_of(begin + count - 1, scale))) + 1, 0, last) + 1;
    return std::pair{first, end - first};
  };
  const auto [y, height] = range(from.height, to.height, wanted.y, wanted.height);
  const auto [x, width] = range(from.width, to.width, wanted.x, wanted.width);
  return {.y = y, .x = x, .height = height, .width = width};
}

BilinearRows::BilinearRows(const ImageView& from, const ImageSize& to, const Window& wanted, BilinearMemory& memory)
    : from_(from), width_(wanted.width), memory_(memory) {
  make_taps(from.height, to.height, wanted.y, wanted.height, AtBorder::kSameTwice, memory.rows);
  make_taps(from.width, to.width, wanted.x, wanted.width, AtBorder::kOneTap, memory.columns);
  const size_t elements = static_cast<size_t>(width_) * static_cast<size_t>(from.image->channels) + kSlack;
  for (std::vector<int16_t>& row : memory.wide) row.resize(elements);
  memory.row.resize(elements);
}

// A source row, resized to the width of the result. Two rows are kept: each may be used for several rows of the result;
// if the image is made smaller, each row of the result needs two new ones.
const int16_t* BilinearRows::widened(int y) {
  const size_t at = static_cast<size_t>(y) % 2;
  int16_t* const wide = memory_.wide[at].data();
  if (widened_[at] == y) return wide;
  widened_[at] = y;
  const Image& image = *from_.image;
  const uint8_t* const row = image.at(y - from_.top, 0);
  const auto bytes_left = image.pixels.data() + image.pixels.size() - row;
  // The fast code reads 5 bytes beyond the last pixel of the row, or 13 if it reads four pixels at a time.
  const auto bytes_behind = bytes_left - ptrdiff_t{3} * image.width;
  if (image.channels == 3 && bytes_behind >= 5) {
    const bool by_four = bytes_behind >= 13 && __builtin_cpu_supports("avx2") != 0;
    const size_t done = by_four ? widen3_by_four(row, memory_.columns, from_.left, wide) : 0;
    widen3(row, memory_.columns, from_.left, done, wide + 3 * done);
  } else {
    widen(row, memory_.columns, from_.left, image.channels, wide);
  }
  return wide;
}

const uint8_t* BilinearRows::row(int y) {
  const auto at = static_cast<size_t>(y);
  const int16_t* const first = widened(memory_.rows.first[at]);
  const int16_t* const second = widened(memory_.rows.second[at]);
  const size_t count = static_cast<size_t>(width_) * static_cast<size_t>(from_.image->channels);
  blend(first, second, memory_.rows.weight[at], count, memory_.row.data());
  return memory_.row.data();
}

}  // namespace dtrain::images
