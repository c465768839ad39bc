// Converts the images of a batch from the host's formats to NHWC in the type that the network computes with.
// kernels/tensor.h has the conventions of all kernels.
#pragma once

#include "cuda/kernels/tensor.h"

namespace dtrain::cuda {

// out[y][x][k] = (pixel - mean) * factor for channels k < `channels`, and 0 for the remaining channels up to
// `stored_channels`. If 3 channels are stored as 4 or 8, a 16-bit pixel has 8 or 16 bytes, which suits convolutions.
// The arithmetic equals that of Normalisation (tensor/pixels.h) bit for bit.
//   pixels [n, h, w, channels], uint8, with 1, 3 or 4 channels; blue_first: 3 or 4 channels are blue, green, red
//          (, alpha), as images are decoded. The result, mean, mean_image and factor are red, green, blue (, alpha).
//   mirrored [n], or null: images with a 1 are mirrored left to right
//   mean [channels], or mean_image [channels, h, w], which is read at the unmirrored position
//   factor [channels], scale / std    out [n, h, w, stored_channels], dense
// Bytes: n*h*w * (channels + stored_channels * bytes_of(type)), plus 4 * channels * h*w with a mean_image.
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

// Like ImageInput, for images that are already floats: x [n, channels, h, w], float32, with any number of channels.
// Bytes: n*h*w * (4 * channels + stored_channels * bytes_of(type)).
struct PlanarInput {
  int64_t n = 0, h = 0, w = 0, channels = 0, stored_channels = 0;
  const float* x = nullptr;
  Type type = Type::kFloat32;
  void* out = nullptr;
};
void planar_input(const PlanarInput& input, cudaStream_t stream);

}  // namespace dtrain::cuda
