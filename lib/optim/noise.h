// The noise of sgld. A noise value depends only on the job's seed, the update, the array and the element's position in
// the array. So it is the same however arrays are divided among servers, devices and threads. Hosts and GPUs draw the
// same bits, because the only operations are on doubles, and all processors round these in the same way.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

// Marks a function that is inlined into loops on the host and into GPU kernels.
#ifdef __CUDACC__
#define DT_ELEMENT __host__ __device__ __forceinline__
#else
#define DT_ELEMENT [[gnu::always_inline]] inline
#endif

namespace dtrain::optim::noise {

// Must be equal to mix64 in base/random.h, which kernels cannot call.
DT_ELEMENT uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The logarithm of x > 0, which must be neither infinite nor subnormal. It is the sum of the logarithm of a power of 2
// and that of the mantissa m, which is within a factor of sqrt(2) of 1: 2 artanh((m - 1) / (m + 1)).
DT_ELEMENT double logarithm(double x) {
  constexpr double kSqrt2 = 1.4142135623730951, kLog2 = 0.6931471805599453;
  constexpr uint64_t kMantissa = (uint64_t{1} << 52) - 1, kOne = uint64_t{1023} << 52;
  uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  auto exponent = static_cast<double>(static_cast<int32_t>(bits >> 52) - 1023);
  bits = (bits & kMantissa) | kOne;
  double m = 0;
  std::memcpy(&m, &bits, sizeof(m));
  const bool large = m > kSqrt2;
  m = large ? m / 2 : m;
  exponent = large ? exponent + 1 : exponent;
  const double s = (m - 1) / (m + 1), z = s * s;
  double sum = 1.0 / 19;
  sum = sum * z + 1.0 / 17;
  sum = sum * z + 1.0 / 15;
  sum = sum * z + 1.0 / 13;
  sum = sum * z + 1.0 / 11;
  sum = sum * z + 1.0 / 9;
  sum = sum * z + 1.0 / 7;
  sum = sum * z + 1.0 / 5;
  sum = sum * z + 1.0 / 3;
  sum = sum * z + 1;
  return 2 * s * sum + exponent * kLog2;
}

// The cosine of 2 pi t, for t in [-0.5, 0.5], computed with the series of the sine: cos(2 pi t) = sin(2 pi (1/4 -
// abs(t))).
DT_ELEMENT double cosine_of_turns(double turns) {
  constexpr double kTwoPi = 6.283185307179586;
  const double x = kTwoPi * (0.25 - std::fabs(turns)), z = x * x;
  double sum = 1;
  sum = 1 - z / (18 * 19) * sum;
  sum = 1 - z / (16 * 17) * sum;
  sum = 1 - z / (14 * 15) * sum;
  sum = 1 - z / (12 * 13) * sum;
  sum = 1 - z / (10 * 11) * sum;
  sum = 1 - z / (8 * 9) * sum;
  sum = 1 - z / (6 * 7) * sum;
  sum = 1 - z / (4 * 5) * sum;
  sum = 1 - z / (2 * 3) * sum;
  return x * sum;
}

// A normally distributed value with mean 0 and variance 1 (Box and Muller). 31 bits determine its magnitude, which is
// below 6.6, and 32 bits the angle. These bits are draw number `position` + 1 of a RandomStream with this key.
DT_ELEMENT float normal_at(uint64_t key, uint64_t position) {
  const uint64_t bits = mixed(key + 0x9e3779b97f4a7c15 * (position + 1));
  const double u = (static_cast<double>(static_cast<int32_t>(bits >> 33)) + 1) * 0x1.0p-31;
  const double turns = static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(bits))) * 0x1.0p-32;
  return static_cast<float>(std::sqrt(-2 * logarithm(u)) * cosine_of_turns(turns));
}

}  // namespace dtrain::optim::noise
