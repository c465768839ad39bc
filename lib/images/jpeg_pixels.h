// Turns a JPEG's coefficients into pixels, with AVX2. The results equal those of libjpeg-turbo's default methods, bit
// for bit: the "islow" inverse cosine transform, the "fancy" upsampling (a triangle filter), and the color conversion.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace dtrain::images {

// True if this processor has the instructions that the functions below need.
bool has_jpeg_pixels();

// The arrays below must have this many additional bytes after their ends, which may be read and written.
inline constexpr size_t kPixelSlack = 64;

// Multiplies two blocks of one component by the quantization steps ([64], row by row) and transforms them to 8 rows of
// 8 samples each. `ends` is the larger of the two blocks' ends (JpegBlocks).
void transform_blocks(const int16_t* first, const int16_t* second, const uint16_t* steps, int ends, uint8_t* out_first,
                      uint8_t* out_second, size_t stride);

// Upsamples a row of `count` samples to 2 `count`: 3/4 of the nearer sample and 1/4 of the farther one. `sums` is
// memory for `count` + 2 numbers.
void upsample_row(const uint8_t* in, size_t count, int16_t* sums, uint8_t* out);
// Like upsample_row, after interpolating between two rows: 3/4 of the row `near`, 1/4 of `far`.
void upsample_rows(const uint8_t* near, const uint8_t* far, size_t count, int16_t* sums, uint8_t* out);

// Converts `count` pixels of brightness and two color differences to blue, green, red. Writes nothing after the last
// pixel.
void to_bgr(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, size_t count, uint8_t* out);

}  // namespace dtrain::images
