#include "cuda/kernels/pooling.h"

#include "cuda/kernels/host.cuh"

namespace dtrain::cuda {

namespace {

// Divides numbers below 2^31 by a divisor that the host knows, with a multiplication and a shift. A plain division by a
// variable takes about twenty instructions, and the backward pass needs six for each pixel.
// Source: Granlund, Montgomery, "Division by invariant integers using multiplication", 1994.
class Divisor {
 public:
  explicit Divisor(int64_t divisor) : divisor_(static_cast<unsigned>(divisor)) {
    while ((int64_t{1} << shift_) < divisor) shift_++;
    factor_ = static_cast<unsigned>(((uint64_t{1} << (31 + shift_)) + divisor_ - 1) / divisor_);
  }
  __device__ __forceinline__ unsigned divide(unsigned n) const {
    return static_cast<unsigned>((uint64_t{n} * factor_) >> (31 + shift_));
  }
  // Returns the quotient, and leaves the remainder in n.
  __device__ __forceinline__ unsigned split(unsigned& n) const {
    const unsigned quotient = divide(n);
    n -= quotient * divisor_;
    return quotient;
  }

 private:
  unsigned divisor_, shift_ = 0, factor_ = 0;
};

// PoolingShape in 32 bits, because 64-bit arithmetic would cost more than the loads between it.
struct Windows {
  int h, w, p, q, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
  Divide divide;
  Divisor by_stride_h, by_stride_w;
};

struct Pixel {
  int64_t image;
  int row, column;
};
// Computes the position of an output pixel from its index; the sizes of the output are the divisors.
struct Places {
  Divisor rows, columns;
  __device__ __forceinline__ Pixel at(unsigned index) const {
    unsigned column = index, row = columns.split(column);
    const unsigned image = rows.split(row);
    return {image, static_cast<int>(row), static_cast<int>(column)};
  }
};

// The cells of window (i, j) that lie on the map: ranges of rows and columns of x.
struct Cells {
  int top, left;  // the window's corner, possibly in the padding
  int h_begin, h_end, w_begin, w_end;
};
__device__ __forceinline__ Cells cells_of(const Windows& s, int i, int j) {
  const int top = i * s.stride_h - s.pad_h, left = j * s.stride_w - s.pad_w;
  return {top, left, max(top, 0), min(top + s.kernel_h, s.h), max(left, 0), min(left + s.kernel_w, s.w)};
}

__device__ __forceinline__ float divisor_of(const Windows& s, int i, int j) {
  if (s.divide == Divide::kNot) return 1;
  if (s.divide == Divide::kByKernel) return static_cast<float>(s.kernel_h * s.kernel_w);
  if (s.divide == Divide::kByReal) {
    const Cells cells = cells_of(s, i, j);
    return static_cast<float>((cells.h_end - cells.h_begin) * (cells.w_end - cells.w_begin));
  }
  const int top = i * s.stride_h - s.pad_h, left = j * s.stride_w - s.pad_w;
  const int rows = min(top + s.kernel_h, s.h + s.pad_h) - top, columns = min(left + s.kernel_w, s.w + s.pad_w) - left;
  return static_cast<float>(rows * columns);
}

// The windows along one axis, out of `count`, that contain cell `at`.
struct Range {
  int begin, end;
};
__device__ __forceinline__ Range windows_over(int at, int pad, int kernel, int stride, const Divisor& by_stride,
                                              int count) {
  const int first = at + pad - kernel + 1;  // the smallest offset of a window that contains the cell, in the padded map
  const int begin = first <= 0 ? 0 : static_cast<int>(by_stride.divide(static_cast<unsigned>(first + stride - 1)));
  return {begin, min(static_cast<int>(by_stride.divide(static_cast<unsigned>(at + pad))) + 1, count)};
}

// The number of indices that are moved at a time, of N neighboring channels: at most 16 bytes.
template <int N, class Index>
constexpr int kIndexStep = N * sizeof(Index) > 16 ? 16 / sizeof(Index) : N;

template <int N, class Index>
__device__ __forceinline__ void load_indices(const Index* from, Index (&index)[N]) {
  constexpr int kStep = kIndexStep<N, Index>;
#pragma unroll
  for (int i = 0; i < N; i += kStep) {
    const auto pack = *reinterpret_cast<const Pack<Index, kStep>*>(from + i);
#pragma unroll
    for (int j = 0; j < kStep; j++) index[i + j] = pack.value[j];
  }
}
template <int N, class Index>
__device__ __forceinline__ void store_indices(const Index (&index)[N], Index* to) {
  constexpr int kStep = kIndexStep<N, Index>;
#pragma unroll
  for (int i = 0; i < N; i += kStep) {
    Pack<Index, kStep> pack;
#pragma unroll
    for (int j = 0; j < kStep; j++) pack.value[j] = index[i + j];
    *reinterpret_cast<Pack<Index, kStep>*>(to + i) = pack;
  }
}

// Arguments of a kernel in which a thread processes N channels of a pixel of y (forward) or of x (backward).
template <class T, class Index>
struct Arguments {
  Windows windows;
  Places places;  // computes the positions of the output's pixels
  int64_t pixels, groups, channels;
  Rows<T> in, add;  // in: x (forward) or dy (backward)
  RowsOut<T> out;   // y (forward) or dx (backward)
  Index* where;
};

template <class T, class Index, int N>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin) max_kernel(const Arguments<T, Index> a) {
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, channel = group * N;
  if (group >= a.groups) return;
  const Windows& s = a.windows;
  for (int64_t row = int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < a.pixels; row += gridDim.y * blockDim.y) {
    const Pixel at = a.places.at(static_cast<unsigned>(row));
    const Cells cells = cells_of(s, at.row, at.column);
    float best[N] = {}, x[N];
    Index place[N] = {};
    bool first = true;
    for (int h = cells.h_begin; h < cells.h_end; h++) {
      for (int w = cells.w_begin; w < cells.w_end; w++) {
        load<N>(a.in.at((at.image * s.h + h) * s.w + w, channel), x);
        const auto here = static_cast<Index>((h - cells.top) * s.kernel_w + w - cells.left);
#pragma unroll
        for (int k = 0; k < N; k++) {
          const bool better = first || x[k] > best[k];
          best[k] = better ? x[k] : best[k];
          place[k] = better ? here : place[k];
        }
        first = false;
      }
    }
    store<N>(best, a.out.at(row, channel));
    if (a.where != nullptr) store_indices<N>(place, a.where + row * a.channels + channel);
  }
}

// A window that contains a cell of x, and N channels of it.
struct Visit {
  Pixel cell;
  int i, j;                 // row and column of the window's pixel in y
  int64_t window, channel;  // window: index of that pixel in y
};
// Backward pass: computes dx as the sum over the windows that contain the cell. share(visit, d) replaces the dy values
// in d by the cell's share of them. On an H100 the arithmetic is the bottleneck: starting the loads of all windows of a
// cell before the sum made it slower.
template <class T, class Index, int N, class Share>
__device__ __forceinline__ void sum_over_windows(const Arguments<T, Index>& a, const Share& share) {
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, channel = group * N;
  if (group >= a.groups) return;
  const Windows& s = a.windows;
  for (int64_t row = int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < a.pixels; row += gridDim.y * blockDim.y) {
    const Pixel at = a.places.at(static_cast<unsigned>(row));
    const Range over_h = windows_over(at.row, s.pad_h, s.kernel_h, s.stride_h, s.by_stride_h, s.p);
    const Range over_w = windows_over(at.column, s.pad_w, s.kernel_w, s.stride_w, s.by_stride_w, s.q);
    float total[N] = {}, d[N];
    if (a.add.data != nullptr) load<N>(a.add.at(row, channel), total);
    for (int i = over_h.begin; i < over_h.end; i++) {
      for (int j = over_w.begin; j < over_w.end; j++) {
        const int64_t window = (at.image * s.p + i) * s.q + j;
        load<N>(a.in.at(window, channel), d);
        share(Visit{at, i, j, window, channel}, d);
#pragma unroll
        for (int k = 0; k < N; k++) total[k] += d[k];
      }
    }
    store<N>(total, a.out.at(row, channel));
  }
}

template <class T, class Index, int N>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin) max_backward_kernel(const Arguments<T, Index> a) {
  sum_over_windows<T, Index, N>(a, [&](const Visit& v, float(&d)[N]) {
    const Windows& s = a.windows;
    const int down = v.cell.row + s.pad_h - v.i * s.stride_h, right = v.cell.column + s.pad_w - v.j * s.stride_w;
    const auto here = static_cast<Index>(down * s.kernel_w + right);
    Index place[N];
    load_indices<N>(a.where + v.window * a.channels + v.channel, place);
#pragma unroll
    for (int k = 0; k < N; k++) d[k] = place[k] == here ? d[k] : 0.0f;
  });
}

template <class T, int N>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin) average_kernel(const Arguments<T, void> a) {
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, channel = group * N;
  if (group >= a.groups) return;
  const Windows& s = a.windows;
  for (int64_t row = int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < a.pixels; row += gridDim.y * blockDim.y) {
    const Pixel at = a.places.at(static_cast<unsigned>(row));
    const Cells cells = cells_of(s, at.row, at.column);
    float total[N] = {}, x[N];
    for (int h = cells.h_begin; h < cells.h_end; h++) {
      for (int w = cells.w_begin; w < cells.w_end; w++) {
        load<N>(a.in.at((at.image * s.h + h) * s.w + w, channel), x);
#pragma unroll
        for (int k = 0; k < N; k++) total[k] += x[k];
      }
    }
    const float divisor = divisor_of(s, at.row, at.column);
#pragma unroll
    for (int k = 0; k < N; k++) total[k] /= divisor;
    store<N>(total, a.out.at(row, channel));
  }
}

template <class T, int N>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin) average_backward_kernel(const Arguments<T, void> a) {
  sum_over_windows<T, void, N>(a, [&](const Visit& v, float(&d)[N]) {
    const float divisor = divisor_of(a.windows, v.i, v.j);
#pragma unroll
    for (int k = 0; k < N; k++) d[k] /= divisor;
  });
}

struct Counts {
  int64_t x, y;  // numbers of pixels of x and y
};
Counts check(const PoolingShape& s) {
  const Counts counts{s.n * s.h * s.w, s.n * s.p * s.q};
  DT_KERNEL_CHECK(counts.x > 0 && counts.y > 0 && s.channels > 0, "the input or the output is empty");
  DT_KERNEL_CHECK(counts.x < INT32_MAX && counts.y < INT32_MAX, "a feature map has 2^31 pixels or more");
  DT_KERNEL_CHECK(s.pad_h < s.kernel_h && s.pad_w < s.kernel_w, "a window contains only padding");
  DT_KERNEL_CHECK((s.p - 1) * s.stride_h - s.pad_h < s.h && (s.q - 1) * s.stride_w - s.pad_w < s.w,
                  "a window begins beyond the end of the input");
  return counts;
}

Windows windows_of(const PoolingShape& s, Divide divide) {
  const auto narrow = [](int64_t x) { return static_cast<int>(x); };
  return {narrow(s.h),
          narrow(s.w),
          narrow(s.p),
          narrow(s.q),
          narrow(s.kernel_h),
          narrow(s.kernel_w),
          narrow(s.stride_h),
          narrow(s.stride_w),
          narrow(s.pad_h),
          narrow(s.pad_w),
          divide,
          Divisor(s.stride_h),
          Divisor(s.stride_w)};
}

// The parameters that the forward and backward passes of both kinds of pooling share.
struct Operation {
  const char* name;
  Type type;
  const PoolingShape& shape;
  Divide divide;
  int64_t pixels, rows, columns;  // number of pixels of the output, and of rows and columns of one map
  int64_t bytes;
  In in, add;
  Out out;
};

Width width_of(const Operation& o, const void* where) {
  return Width(o.type, o.shape.channels).rows(o.in).rows(o.add).rows(o.out).rows(where, 0);
}

Launch launch_of(const Operation& o, const Width& width, cudaStream_t stream) {
  const auto [grid, block] = row_grid(o.pixels, width.groups());
  return {.name = o.name, .grid = grid, .block = block, .bytes = o.bytes, .stream = stream};
}

template <class T, class Index>
Arguments<T, Index> arguments_of(const Operation& o, const Width& width, Index* where) {
  return {.windows = windows_of(o.shape, o.divide),
          .places = {Divisor(o.rows), Divisor(o.columns)},
          .pixels = o.pixels,
          .groups = width.groups(),
          .channels = o.shape.channels,
          .in = rows_of<T>(o.in, o.shape.channels),
          .add = rows_of<T>(o.add, o.shape.channels),
          .out = rows_of<T>(o.out, o.shape.channels),
          .where = where};
}

// Calls f<Index>() with the type of a maximum's index.
template <class F>
void with_index(const PoolingShape& shape, F&& f) {
  if (max_pooling_index_bytes(shape) == 1) {
    f.template operator()<uint8_t>();
  } else {
    f.template operator()<uint32_t>();
  }
}

}  // namespace

int64_t max_pooling_index_bytes(const PoolingShape& s) {
  return s.kernel_h * s.kernel_w <= 256 ? 1 : 4;
}

void max_pooling(const MaxPooling& s, cudaStream_t stream) {
  const Counts pixels = check(s.shape);
  const int64_t index_bytes = s.where == nullptr ? 0 : max_pooling_index_bytes(s.shape), c = s.shape.channels;
  const Operation o{.name = "max_pooling",
                    .type = s.type,
                    .shape = s.shape,
                    .divide = Divide::kByPadded,
                    .pixels = pixels.y,
                    .rows = s.shape.p,
                    .columns = s.shape.q,
                    .bytes = (pixels.x + pixels.y) * c * bytes_of(s.type) + pixels.y * c * index_bytes,
                    .in = s.x,
                    .add = {},
                    .out = s.y};
  const Width width = width_of(o, s.where);
  const Launch what = launch_of(o, width, stream);
  with_index(s.shape, [&]<class Index>() {
    with_width(s.type, width.wide(), [&]<class T, int N>() {
      launch(what, max_kernel<T, Index, N>, arguments_of<T>(o, width, static_cast<Index*>(s.where)));
    });
  });
}

void max_pooling_backward(const MaxPoolingBackward& s, cudaStream_t stream) {
  const Counts pixels = check(s.shape);
  DT_KERNEL_CHECK(s.where != nullptr, "the backward pass needs the positions of the maxima");
  const int64_t maps = s.add.data == nullptr ? 1 : 2, c = s.shape.channels;
  const Operation o{
      .name = "max_pooling_backward",
      .type = s.type,
      .shape = s.shape,
      .divide = Divide::kByPadded,
      .pixels = pixels.x,
      .rows = s.shape.h,
      .columns = s.shape.w,
      .bytes = (maps * pixels.x + pixels.y) * c * bytes_of(s.type) + pixels.y * c * max_pooling_index_bytes(s.shape),
      .in = s.dy,
      .add = s.add,
      .out = s.dx};
  const Width width = width_of(o, s.where);
  const Launch what = launch_of(o, width, stream);
  with_index(s.shape, [&]<class Index>() {
    with_width(s.type, width.wide(), [&]<class T, int N>() {
      launch(what, max_backward_kernel<T, Index, N>,
             arguments_of<T>(o, width, static_cast<Index*>(const_cast<void*>(s.where))));
    });
  });
}

void average_pooling(const AveragePooling& s, cudaStream_t stream) {
  const Counts pixels = check(s.shape);
  const Operation o{.name = "average_pooling",
                    .type = s.type,
                    .shape = s.shape,
                    .divide = s.divide,
                    .pixels = pixels.y,
                    .rows = s.shape.p,
                    .columns = s.shape.q,
                    .bytes = (pixels.x + pixels.y) * s.shape.channels * bytes_of(s.type),
                    .in = s.x,
                    .add = {},
                    .out = s.y};
  const Width width = width_of(o, nullptr);
  const Launch what = launch_of(o, width, stream);
  with_width(s.type, width.wide(),
             [&]<class T, int N>() { launch(what, average_kernel<T, N>, arguments_of<T, void>(o, width, nullptr)); });
}

void average_pooling_backward(const AveragePoolingBackward& s, cudaStream_t stream) {
  const Counts pixels = check(s.shape);
  const int64_t maps = s.add.data == nullptr ? 1 : 2;
  const Operation o{.name = "average_pooling_backward",
                    .type = s.type,
                    .shape = s.shape,
                    .divide = s.divide,
                    .pixels = pixels.x,
                    .rows = s.shape.h,
                    .columns = s.shape.w,
                    .bytes = (maps * pixels.x + pixels.y) * s.shape.channels * bytes_of(s.type),
                    .in = s.dy,
                    .add = s.add,
                    .out = s.dx};
  const Width width = width_of(o, nullptr);
  const Launch what = launch_of(o, width, stream);
  with_width(s.type, width.wide(), [&]<class T, int N>() {
    launch(what, average_backward_kernel<T, N>, arguments_of<T, void>(o, width, nullptr));
  });
}

}  // namespace dtrain::cuda
