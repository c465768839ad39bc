// The images of a batch, from the host's forms to NHWC in the type that the network computes with.
// kernels/tensor.h says what holds for all kernels.
#pragma once

#include "cuda/kernels/tensor.h"

namespace dtrain::cuda {

// out[y][x][k] = (pixel - mean) * factor for the k-th of `channels`, 0 for channels up to `stored_channels`: 4 for 3
// makes a pixel 8 bytes, which convolutions want. The arithmetic is data::Augmenter's, to the bit.
//   pixels [n, h, w, channels], uint8, channels 1, 3 or 4; blue_first: 3 and 4 come as blue, green, red (, alpha), as
//          data::Image has them. The result, mean, mean_image and factor are red, green, blue (, alpha).
//   mirrored [n], or absent: images with a 1 are mirrored left to right
//   mean [channels], or mean_image [channels, h, w], which is taken at unmirrored positions
//   factor [channels], scale / std    out [n, h, w, stored_channels], dense
// Bytes: n*h*w * (channels + stored_channels * bytes_of(type)), and 4 * channels * h*w with a mean_image.
struct ImageInput {
  int64_t n = 0, h = 0, w = 0, channels = 0, stored_channels = 0;
  const uint8_t* pixels = nullptr;
  bool blue_first = false;
  const uint8_t* mirrored = nullptr;
  const float* mean = nullptr;
  const float* mean_image = nullptr;
  const float* factor = nullptr;
  Type type = Type::kFloat32;
  void* out = nullptr;
};
void image_input(const ImageInput& input, cudaStream_t stream);

// The same from numbers that are ready: x [n, channels, h, w], float32, of any number of channels.
// Bytes: n*h*w * (4 * channels + stored_channels * bytes_of(type)).
struct PlanarInput {
  int64_t n = 0, h = 0, w = 0, channels = 0, stored_channels = 0;
  const float* x = nullptr;
  Type type = Type::kFloat32;
  void* out = nullptr;
};
void planar_input(const PlanarInput& input, cudaStream_t stream);

}  // namespace dtrain::cuda
