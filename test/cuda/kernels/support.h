// Shared by the tests of kernels: tensors in emulated device memory, values for them, tolerances, and running every
// operation in several thread orders.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "cuda/kernels/tensor.h"
#include "cuda/runtime/memory.h"
#include "emulator.h"
#include "exec/norm.h"
#include "exec/reference/loops.h"
#include "support/catch.h"

namespace dtrain::cuda::test {

using exec::reference::Extent;
using Floats = std::vector<float>;
using Results = std::vector<Floats>;

inline constexpr Type kTypes[] = {Type::kFloat32, Type::kFloat16, Type::kBfloat16};

// Half the distance between 1 and the next larger number.
inline double unit_roundoff(Type type) {
  return type == Type::kFloat32 ? 0x1p-24 : type == Type::kFloat16 ? 0x1p-11 : 0x1p-8;
}

// The largest normalized error of sums of `length` float32 terms that are stored in `type`. exec/rounding.cc has the
// same formula and its reasons.
inline double tolerance(Type type, double length) {
  return (type == Type::kFloat32 ? 0 : unit_roundoff(type)) + 0x1p-24 * (8 + 2 * std::sqrt(length));
}

inline void put(Type type, void* memory, int64_t i, float value) {
  switch (type) {
    case Type::kFloat32: static_cast<float*>(memory)[i] = value; return;
    case Type::kFloat16: static_cast<__half*>(memory)[i] = __float2half_rn(value); return;
    case Type::kBfloat16: static_cast<__nv_bfloat16*>(memory)[i] = __float2bfloat16_rn(value); return;
  }
}
inline float take(Type type, const void* memory, int64_t i) {
  switch (type) {
    case Type::kFloat32: return static_cast<const float*>(memory)[i];
    case Type::kFloat16: return __half2float(static_cast<const __half*>(memory)[i]);
    case Type::kBfloat16: return __bfloat162float(static_cast<const __nv_bfloat16*>(memory)[i]);
  }
  return 0;
}

// The values after being stored in `type`.
inline Floats rounded(Type type, Floats values) {
  for (float& value : values) {
    put(type, &value, 0, value);
    value = take(type, &value, 0);
  }
  return values;
}

// An array on the device: `count` numbers that start `skew` elements after an aligned address, with no memory after
// them.
class Array {
 public:
  Array(Type type, int64_t count, int64_t skew = 0)
      : type_(type), count_(count), skew_(skew), memory_(static_cast<size_t>((count + skew) * bytes_of(type))) {}
  Array(Type type, const Floats& values, int64_t skew = 0) : Array(type, static_cast<int64_t>(values.size()), skew) {
    set(values);
  }
  [[nodiscard]] void* data() const { return memory_.at(static_cast<size_t>(skew_ * bytes_of(type_))); }
  [[nodiscard]] float* floats() const { return static_cast<float*>(data()); }
  void set(const Floats& values) {
    for (size_t i = 0; i < values.size(); i++) put(type_, data(), static_cast<int64_t>(i), values[i]);
  }
  [[nodiscard]] Floats get() const {
    Floats values;
    for (int64_t i = 0; i < count_; i++) values.push_back(take(type_, data(), i));
    return values;
  }
  [[nodiscard]] Type type() const { return type_; }

 private:
  Type type_;
  int64_t count_, skew_;
  DeviceMemory memory_;
};

inline Array floats(const Floats& values) {
  return {Type::kFloat32, values};
}

// Counters of a kernel, initially zero (kernels/tensor.h).
class Counters {
 public:
  explicit Counters(int64_t count) : count_(count), memory_(static_cast<size_t>(count) * sizeof(uint32_t)) {}
  [[nodiscard]] uint32_t* data() const { return static_cast<uint32_t*>(memory_.at(0)); }
  [[nodiscard]] bool are_zero() const {
    return std::all_of(data(), data() + count_, [](uint32_t counter) { return counter == 0; });
  }

 private:
  int64_t count_;
  DeviceMemory memory_;
};

// How a map is placed in memory.
struct Lie {
  int64_t gap = 0;   // elements between two pixels, as in a slice of a Concat
  int64_t skew = 0;  // elements after an aligned address
};
inline constexpr Lie kLies[] = {{}, {.gap = 8, .skew = 8}, {.gap = 3}, {.skew = 1}};

// A map on the device in NHWC; set() and get() use the reference's order, NCHW.
class Map {
 public:
  Map(Type type, const Extent& e, Lie lie = {})
      : e_(e), pitch_(e.c + lie.gap), array_(type, e.n * e.h * e.w * pitch_ - lie.gap, lie.skew) {
    array_.set(Floats(static_cast<size_t>(e.n * e.h * e.w * pitch_ - lie.gap), kUntouched));
  }
  Map(Type type, const Extent& e, const Floats& values, Lie lie = {}) : Map(type, e, lie) { set(values); }

  void set(const Floats& values) {
    visit([&](int64_t i, size_t j) { put(array_.type(), array_.data(), i, values[j]); });
  }
  [[nodiscard]] Floats get() const {
    Floats values(e_.count());
    visit([&](int64_t i, size_t j) { values[j] = take(array_.type(), array_.data(), i); });
    return values;
  }
  // Whether the elements between the pixels were not written to.
  [[nodiscard]] bool gaps_are_untouched() const {
    Floats left = array_.get();
    visit([&](int64_t i, size_t) { left[static_cast<size_t>(i)] = kUntouched; });
    return left == Floats(left.size(), kUntouched);
  }
  [[nodiscard]] In in() const { return {array_.data(), pitch_}; }
  [[nodiscard]] Out out() const { return {array_.data(), pitch_}; }

 private:
  static constexpr float kUntouched = 96;

  template <class Visit>
  void visit(Visit&& visit) const {
    int64_t pixel = 0;
    for (int64_t n = 0; n < e_.n; n++) {
      for (int64_t h = 0; h < e_.h; h++) {
        for (int64_t w = 0; w < e_.w; w++, pixel++) {
          for (int64_t c = 0; c < e_.c; c++) visit(pixel * pitch_ + c, e_.at(n, c, h, w));
        }
      }
    }
  }

  Extent e_;
  int64_t pitch_;
  Array array_;
};

inline int64_t pixels(const Extent& e) {
  return e.n * e.h * e.w;
}

// integers: whole numbers in -4 .. 4, whose sums are exact. normals: normally distributed around `mean` with deviation
// 1.
inline Floats integers(size_t count, uint64_t seed) {
  RandomStream random(seed, Use::kTest);
  Floats values(count);
  for (float& value : values) value = static_cast<float>(random.below(9) - 4);
  return values;
}
inline Floats normals(size_t count, uint64_t seed, double mean = 0) {
  RandomStream random(seed, Use::kTest);
  Floats values(count);
  for (float& value : values) value = static_cast<float>(mean + random.normal());
  return values;
}

inline std::vector<double> doubles(const Floats& x) {
  return {x.begin(), x.end()};
}
inline Floats to_floats(const std::vector<double>& x) {
  return {x.begin(), x.end()};
}

inline double error_of(const Floats& x, const std::vector<double>& truth, double scale = 0) {
  REQUIRE(x.size() == truth.size());
  return exec::normalised_error(x, truth, scale);
}

inline bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Runs an operation in the orders of several seeds. `run` makes its tensors again and returns everything that it
// computed. All orders must give the same bits, which are returned.
template <class Run>
std::vector<Floats> in_all_orders(Run&& run) {
  std::vector<Floats> first;
  for (const uint64_t seed : {0, 1, 2}) {
    INFO("order " << seed);
    const emulator::Session session(seed);
    std::vector<Floats> results = run();
    if (first.empty()) first = results;
    REQUIRE(results.size() == first.size());
    for (size_t i = 0; i < results.size(); i++) REQUIRE(same_bits(results[i], first[i]));
  }
  return first;
}

// Maps of Inception's and ResNet's layers, and maps with odd sizes.
inline std::vector<Extent> map_extents() {
  return {{2, 64, 14, 14}, {2, 24, 7, 5},  {1, 2048, 2, 2}, {2, 96, 7, 7},   {3, 160, 4, 4}, {3, 8, 9, 9},
          {2, 3, 13, 11},  {1, 1, 28, 28}, {4, 10, 1, 1},   {2, 1000, 1, 1}, {5, 1, 1, 1},   {2, 320, 7, 7}};
}

inline std::string to_text(const Extent& e) {
  return std::to_string(e.n) + "x" + std::to_string(e.c) + "x" + std::to_string(e.h) + "x" + std::to_string(e.w);
}

}  // namespace dtrain::cuda::test
