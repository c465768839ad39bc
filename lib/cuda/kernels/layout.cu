#include "cuda/kernels/layout.h"

#include "cuda/kernels/host.cuh"

namespace dtrain::cuda {

namespace {

// The size of a tile, and the number of its rows that a block moves at a time. Matrices [rows, columns] are transposed
// to [columns, rows] by tiles in shared memory, so that both sides are accessed along their own rows. The tile has an
// additional column so that the elements of a column are in different banks.
constexpr int kTile = 32, kTileRows = 8;

template <class From, class To>
struct TransposeArguments {
  const From* from;
  To* to;
  int64_t count, rows, columns;
  int64_t from_pitch, to_pitch;    // distances between rows, in elements
  int64_t from_stride, to_stride;  // distances between matrices, in elements
};

template <class From, class To>
__global__ void __launch_bounds__(kTile* kTileRows) transpose_kernel(const TransposeArguments<From, To> a) {
  __shared__ float tile[kTile][kTile + 1];
  const int64_t row = int64_t{blockIdx.y} * kTile, column = int64_t{blockIdx.x} * kTile;
  // The size of the part of the tile that is inside the matrix.
  const int rows = static_cast<int>(a.rows - row < kTile ? a.rows - row : kTile);
  const int columns = static_cast<int>(a.columns - column < kTile ? a.columns - column : kTile);
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  for (int64_t matrix = blockIdx.z; matrix < a.count; matrix += gridDim.z) {
    const From* from = a.from + matrix * a.from_stride + row * a.from_pitch + column + x;
    if (x < columns) {
      for (int i = y; i < rows; i += kTileRows) tile[i][x] = to_float(from[i * a.from_pitch]);
    }
    __syncthreads();
    To* to = a.to + matrix * a.to_stride + column * a.to_pitch + row + x;
    if (x < rows) {
      for (int i = y; i < columns; i += kTileRows) to[i * a.to_pitch] = from_float<To>(tile[x][i]);
    }
    __syncthreads();
  }
}

// The part of a tensor that a block converts. The kernels process elements in the order in which they are written. The
// reads of a warp are spread over taps (or over the taps of several filters) but stay within a few filters, which the
// L1 cache holds until the block has used all of them.
struct Part {
  WeightTensor tensor;
  unsigned begin, end;
};
__device__ __forceinline__ Part part_of(const WeightTensor* tensors, const Chunk* chunks) {
  const Chunk chunk = chunks[blockIdx.x];
  return {tensors[chunk.tensor], static_cast<unsigned>(chunk.index * kChunkElements),
          static_cast<unsigned>((chunk.index + 1) * kChunkElements)};
}

template <class T>
__device__ void store_part(const Part& part) {
  const WeightTensor& t = part.tensor;
  const unsigned stored = t.stored_channels, taps = t.taps, count = t.filters * taps * stored;
  for (unsigned i = part.begin + threadIdx.x; i < part.end && i < count; i += blockDim.x) {
    const unsigned channel = i % stored, pixel = i / stored, filter = pixel / taps, tap = pixel % taps;
    const bool exists = channel < static_cast<unsigned>(t.channels);
    const float value = exists ? t.canonical[(filter * t.channels + channel) * taps + tap] : 0.0f;
    static_cast<T*>(t.stored)[i] = from_float<T>(value);
  }
}

template <class T>
__device__ void read_part(const Part& part, float factor) {
  const WeightTensor& t = part.tensor;
  const unsigned channels = t.channels, taps = t.taps, count = t.filters * taps * channels;
  for (unsigned i = part.begin + threadIdx.x; i < part.end && i < count; i += blockDim.x) {
    const unsigned tap = i % taps, plane = i / taps, filter = plane / channels, channel = plane % channels;
    t.canonical[i] =
        to_float(static_cast<const T*>(t.stored)[(filter * taps + tap) * t.stored_channels + channel]) * factor;
  }
}

__global__ void __launch_bounds__(kBlockThreads, kBlocksMin)
    store_weights_kernel(const WeightTensor* tensors, const Chunk* chunks) {
  const Part part = part_of(tensors, chunks);
  switch (part.tensor.type) {
    case Type::kFloat32: return store_part<float>(part);
    case Type::kFloat16: return store_part<__half>(part);
    case Type::kBfloat16: return store_part<__nv_bfloat16>(part);
  }
}

__global__ void __launch_bounds__(kBlockThreads, kBlocksMin)
    read_weights_kernel(const WeightTensor* tensors, const Chunk* chunks, const float* factor) {
  const Part part = part_of(tensors, chunks);
  const float by = factor == nullptr ? 1.0f : *factor;
  switch (part.tensor.type) {
    case Type::kFloat32: return read_part<float>(part, by);
    case Type::kFloat16: return read_part<__half>(part, by);
    case Type::kBfloat16: return read_part<__nv_bfloat16>(part, by);
  }
}

template <class From, class To>
void transpose(const char* name, const TransposeArguments<From, To>& a, cudaStream_t stream) {
  DT_KERNEL_CHECK(a.count > 0 && a.rows > 0 && a.columns > 0, "the input is empty");
  DT_KERNEL_CHECK(a.rows <= kGridYMax * kTile, "there are more rows than a grid can have");
  const int64_t x = divide_up(a.columns, kTile), y = divide_up(a.rows, kTile);
  // If a matrix has only one or two tiles, a block processes several matrices.
  const int64_t z = std::min({a.count, divide_up(kGridBlocks * 2, x * y), kGridYMax});
  const Dim grid{static_cast<uint32_t>(x), static_cast<uint32_t>(y), static_cast<uint32_t>(z)};
  launch({.name = name,
          .grid = grid,
          .block = {kTile, kTileRows},
          .bytes = a.count * a.rows * a.columns * static_cast<int64_t>(sizeof(From) + sizeof(To)),
          .stream = stream},
         transpose_kernel<From, To>, a);
}

// Calls f<A, B>(), where A is the C++ type of the map's elements, and B that of the planar side's elements.
template <class F>
void with_types(const Planar& shape, F&& f) {
  DT_KERNEL_CHECK(shape.planar_type == shape.type || shape.planar_type == Type::kFloat32,
                  "the type of the planes must be float32 or that of the feature map");
  with_type(shape.type, [&]<class T>() {
    if (shape.planar_type == Type::kFloat32) {
      f.template operator()<T, float>();
    } else {
      f.template operator()<T, T>();
    }
  });
}

}  // namespace

void to_planar(const Planar& s, const In& map, void* planar, cudaStream_t stream) {
  with_types(s, [&]<class T, class P>() {
    const Rows<T> from = rows_of<T>(map, s.channels);
    transpose("to_planar",
              TransposeArguments<T, P>{.from = from.data,
                                       .to = static_cast<P*>(planar),
                                       .count = s.n,
                                       .rows = s.positions,
                                       .columns = s.channels,
                                       .from_pitch = from.pitch,
                                       .to_pitch = s.positions,
                                       .from_stride = s.positions * from.pitch,
                                       .to_stride = s.channels * s.positions},
              stream);
  });
}

void from_planar(const Planar& s, const void* planar, const Out& map, cudaStream_t stream) {
  with_types(s, [&]<class T, class P>() {
    const RowsOut<T> to = rows_of<T>(map, s.channels);
    transpose("from_planar",
              TransposeArguments<P, T>{.from = static_cast<const P*>(planar),
                                       .to = to.data,
                                       .count = s.n,
                                       .rows = s.channels,
                                       .columns = s.positions,
                                       .from_pitch = s.positions,
                                       .to_pitch = to.pitch,
                                       .from_stride = s.channels * s.positions,
                                       .to_stride = s.positions * to.pitch},
              stream);
  });
}

void store_weights(const Table<WeightTensor>& table, cudaStream_t stream) {
  launch(launch_of("store_weights", table, stream), store_weights_kernel, table.tensors, table.chunks);
}

void read_weights(const Table<WeightTensor>& table, const float* factor, cudaStream_t stream) {
  launch(launch_of("read_weights", table, stream), read_weights_kernel, table.tensors, table.chunks, factor);
}

}  // namespace dtrain::cuda
