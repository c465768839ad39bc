#include "cuda/kernels/input.h"

#include "cuda/kernels/host.cuh"

namespace dtrain::cuda {

namespace {

// The arguments of the kernel for images. A thread of this kernel produces one pixel: it reads 3 bytes and writes 8 to
// 32 bytes at once. Neighboring threads read neighboring bytes, so the single bytes that a warp reads come from the
// same cache lines. Pixel indices have 32 bits because 64-bit divisions take longer than the loads.
struct ImageArguments {
  unsigned pixels, h, w;
  int channels;
  bool blue_first;
  const uint8_t *from, *mirrored;
  const float *mean, *mean_image, *factor;
};

// A pixel: the number of its image, and its position (y, x) in that image. value_at() returns the value of channel k at
// a Place.
struct Place {
  unsigned image, y, x;
};
__device__ __forceinline__ float value_at(const ImageArguments& a, const Place& p, int k) {
  const int source = a.blue_first && k < 3 && a.channels >= 3 ? 2 - k : k;
  const unsigned pixel = p.y * a.w + p.x;
  const auto byte = a.from[(int64_t{p.image} * a.h * a.w + pixel) * a.channels + source];
  const float mean = a.mean_image != nullptr ? a.mean_image[int64_t{k} * a.h * a.w + pixel] : a.mean[k];
  return (static_cast<float>(byte) - mean) * a.factor[k];
}

template <class T, int Stored>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin) image_kernel(const ImageArguments a, T* out) {
  const unsigned threads = gridDim.x * blockDim.x;
  for (unsigned at = blockIdx.x * blockDim.x + threadIdx.x; at < a.pixels; at += threads) {
    const unsigned line = at / a.w, x = at % a.w, image = line / a.h;
    const bool mirror = a.mirrored != nullptr && a.mirrored[image] != 0;
    const Place place{image, line % a.h, mirror ? a.w - 1 - x : x};
    float value[Stored];
#pragma unroll
    for (int k = 0; k < Stored; k++) value[k] = k < a.channels ? value_at(a, place, k) : 0.0f;
    if constexpr (Stored == 3) {
#pragma unroll
      for (int k = 0; k < Stored; k++) out[int64_t{at} * Stored + k] = from_float<T>(value[k]);
    } else {
      store<Stored>(value, out + int64_t{at} * Stored);
    }
  }
}

// Writes the channels of a pixel, and zeros up to `Stored` channels.
template <int Stored, class T>
__device__ __forceinline__ void store_padded(const float* from, unsigned plane, int channels, T* to) {
  float value[Stored];
#pragma unroll
  for (int k = 0; k < Stored; k++) value[k] = k < channels ? from[int64_t{k} * plane] : 0.0f;
  store<Stored>(value, to);
}

// In this kernel, neighboring threads read neighboring pixels of a plane, and each thread writes all channels of its
// pixel.
template <class T>
__global__ void __launch_bounds__(kBlockThreads, kBlocksMin)
    planar_kernel(const float* x, T* out, unsigned pixels, unsigned plane, int channels, int stored) {
  const unsigned threads = gridDim.x * blockDim.x;
  for (unsigned at = blockIdx.x * blockDim.x + threadIdx.x; at < pixels; at += threads) {
    const float* from = x + int64_t{at / plane} * channels * plane + at % plane;
    T* to = out + int64_t{at} * stored;
    if (stored == 4) {
      store_padded<4>(from, plane, channels, to);
    } else if (stored == 8) {
      store_padded<8>(from, plane, channels, to);
    } else {
      for (int k = 0; k < stored; k++) to[k] = from_float<T>(k < channels ? from[int64_t{k} * plane] : 0.0f);
    }
  }
}

// Calls f<Stored>(), where Stored is the value of `stored`: 1, 3, 4 or 8.
template <class F>
void with_stored(int64_t stored, F&& f) {
  if (stored == 1) {
    f.template operator()<1>();
  } else if (stored == 3) {
    f.template operator()<3>();
  } else if (stored == 4) {
    f.template operator()<4>();
  } else {
    f.template operator()<8>();
  }
}

unsigned checked_pixels(int64_t n, int64_t h, int64_t w, const void* out) {
  // The limit is half of the 32-bit range, because the index in the grid-stride loop may go beyond the last pixel.
  DT_KERNEL_CHECK(n * h * w > 0 && n * h * w < INT32_MAX, "the number of pixels must be above 0 and below 2^31");
  DT_KERNEL_CHECK(is_aligned(out), "the network's input must be aligned to 16 bytes");
  return static_cast<unsigned>(n * h * w);
}

}  // namespace

void image_input(const ImageInput& s, cudaStream_t stream) {
  const unsigned pixels = checked_pixels(s.n, s.h, s.w, s.out);
  DT_KERNEL_CHECK(s.channels == 1 || s.channels == 3 || s.channels == 4, "images must have 1, 3 or 4 channels");
  DT_KERNEL_CHECK(s.stored_channels == s.channels || s.stored_channels == 4 || s.stored_channels == 8,
                  "the number of stored channels must be that of the image, 4 or 8");
  DT_KERNEL_CHECK((s.mean == nullptr) != (s.mean_image == nullptr), "exactly one of mean and mean_image must be given");
  const auto [grid, block] = flat_grid(pixels);
  const int64_t mean_bytes = s.mean_image == nullptr ? 0 : 4 * s.channels * s.h * s.w;
  const Launch what{.name = "image_input",
                    .grid = grid,
                    .block = block,
                    .bytes = pixels * (s.channels + s.stored_channels * bytes_of(s.type)) + mean_bytes,
                    .stream = stream};
  const ImageArguments a{.pixels = pixels,
                         .h = static_cast<unsigned>(s.h),
                         .w = static_cast<unsigned>(s.w),
                         .channels = static_cast<int>(s.channels),
                         .blue_first = s.blue_first,
                         .from = s.pixels,
                         .mirrored = s.mirrored,
                         .mean = s.mean,
                         .mean_image = s.mean_image,
                         .factor = s.factor};
  with_type(s.type, [&]<class T>() {
    with_stored(s.stored_channels,
                [&]<int Stored>() { launch(what, image_kernel<T, Stored>, a, static_cast<T*>(s.out)); });
  });
}

void planar_input(const PlanarInput& s, cudaStream_t stream) {
  const unsigned pixels = checked_pixels(s.n, s.h, s.w, s.out);
  DT_KERNEL_CHECK(s.channels > 0 && s.stored_channels >= s.channels,
                  "there must be at least as many stored channels as channels");
  const auto [grid, block] = flat_grid(pixels);
  const Launch what{.name = "planar_input",
                    .grid = grid,
                    .block = block,
                    .bytes = pixels * (4 * s.channels + s.stored_channels * bytes_of(s.type)),
                    .stream = stream};
  with_type(s.type, [&]<class T>() {
    launch(what, planar_kernel<T>, s.x, static_cast<T*>(s.out), pixels, static_cast<unsigned>(s.h * s.w),
           static_cast<int>(s.channels), static_cast<int>(s.stored_channels));
  });
}

}  // namespace dtrain::cuda
