// Host code shared by all kernels: selecting a template by type and width, grids for rows, checks.
//
// Checks take a fixed text instead of DT_CHECK's format, because nvcc does not compile fmt 9's checks of format
// strings.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>

#include "cuda/kernels/device.cuh"
#include "cuda/kernels/tables.h"
#include "cuda/kernels/tensor.h"
#include "cuda/runtime/launch.h"

namespace dtrain {
[[noreturn]] void throw_check_failed(const char* file, int line, const char* condition, const std::string& message);
}  // namespace dtrain

#define DT_KERNEL_CHECK(condition, text)                                  \
  do {                                                                    \
    if (!(condition)) [[unlikely]]                                        \
      ::dtrain::throw_check_failed(__FILE__, __LINE__, #condition, text); \
  } while (false)

namespace dtrain::cuda {

constexpr int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// The number of blocks of a grid: enough to keep current devices busy (132 multiprocessors, 8 blocks of 256 threads
// each), while each thread still gets several rows, so that it loads its channels' parameters once for all of them.
// This is a constant instead of a device property because it determines how sums are split.
constexpr int64_t kGridBlocks = 1056;
constexpr int64_t kGridYMax = 65535;

template <class T>
Rows<T> rows_of(const In& in, int64_t channels) {
  return {static_cast<const T*>(in.data), in.pitch == 0 ? channels : in.pitch};
}
template <class T>
RowsOut<T> rows_of(const Out& out, int64_t channels) {
  return {static_cast<T*>(out.data), out.pitch == 0 ? channels : out.pitch};
}

inline bool is_aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

// A launch with one block for each chunk of the table.
template <class Tensor>
Launch launch_of(const char* name, const Table<Tensor>& table, cudaStream_t stream) {
  DT_KERNEL_CHECK(table.chunk_count > 0, "the table is empty");
  return {.name = name,
          .grid = {static_cast<uint32_t>(table.chunk_count)},
          .block = {kBlockThreads},
          .bytes = table.bytes,
          .stream = stream};
}

// Decides whether 16 bytes can be moved at a time. Data that is absent (null) is ignored.
class Width {
 public:
  Width(Type type, int64_t channels)
      : bytes_(bytes_of(type)), channels_(channels), wide_(channels * bytes_ % 16 == 0) {}
  Width& rows(const void* data, int64_t pitch) {
    wide_ = wide_ && (data == nullptr || (is_aligned(data) && pitch * bytes_ % 16 == 0));
    return *this;
  }
  Width& rows(const In& in) { return rows(in.data, in.pitch); }
  Width& rows(const Out& out) { return rows(out.data, out.pitch); }
  [[nodiscard]] bool wide() const { return wide_; }
  // The number of groups into which the channels are divided. The channels of a group are moved at once.
  [[nodiscard]] int64_t groups() const { return wide_ ? channels_ * bytes_ / 16 : channels_; }

 private:
  int64_t bytes_, channels_;
  bool wide_;
};

// Calls f<T>(), where T is the C++ type of an element of the given Type.
template <class F>
void with_type(Type type, F&& f) {
  switch (type) {
    case Type::kFloat32: return f.template operator()<float>();
    case Type::kFloat16: return f.template operator()<__half>();
    case Type::kBfloat16: return f.template operator()<__nv_bfloat16>();
  }
}

// Calls f<T, N>(), where T is the C++ type of an element, and N the number of elements that are moved at a time.
template <class F>
void with_width(Type type, bool wide, F&& f) {
  with_type(type, [&]<class T>() {
    if (wide) {
      f.template operator()<T, kWide<T>>();
    } else {
      f.template operator()<T, 1>();
    }
  });
}

struct Grid {
  Dim grid, block;
};

// The minimum number of rows per thread. With fewer rows, a thread takes longer to load its channels' parameters than
// to move its rows (twice as long for the small maps of a ResNet on an H100), and partial results of sums would be too
// large compared with the rows.
constexpr int64_t kRowsOfThreadMin = 8;

// Threads along x process the groups of a row; threads along y and blocks along grid.y process rows, with a grid
// stride. Even a small number of rows is spread over many blocks.
inline Grid row_grid(int64_t rows, int64_t groups) {
  const int64_t tiles = divide_up(groups, kBlockThreads), x = divide_up(groups, tiles), y = kBlockThreads / x;
  const int64_t most = std::max<int64_t>(kGridBlocks * 4 / tiles, 1),
                few = std::max<int64_t>(kGridBlocks / 2 / tiles, 1);
  const int64_t wanted = std::max(rows / (y * kRowsOfThreadMin), std::min(few, divide_up(rows, y)));
  const int64_t grid_y = std::min({wanted, most, kGridYMax});
  return {{static_cast<uint32_t>(tiles), static_cast<uint32_t>(grid_y)},
          {static_cast<uint32_t>(x), static_cast<uint32_t>(y)}};
}

// Threads along x process elements, with a grid stride.
inline Grid flat_grid(int64_t count) {
  const int64_t blocks = std::min(divide_up(count, kBlockThreads), kGridBlocks * 8);
  return {{static_cast<uint32_t>(blocks)}, {kBlockThreads}};
}

}  // namespace dtrain::cuda
