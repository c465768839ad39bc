// A SpatialTransformer's sampling of one image's feature map, for the backends that compute on the host.
//
// The result has kinks where a sampled position coincides with a row or column of cells. The identity transformation,
// with which networks begin, puts all positions there. Therefore the cells are chosen in float32, with the operations
// in the order below, whatever the type in which the interpolation weights are computed, so that all backends choose
// the same cells.
#pragma once

#include <cmath>
#include <cstdint>

namespace dtrain::exec {

// A position on one axis, between the cells `cell` and `cell` + 1, either of which may be outside the map. The weight
// of `cell` is 1 - beyond.
template <class T>
struct Place {
  int64_t cell = 0;
  T beyond = 0;
};

// The coordinate of output i of `size` along an axis, from -1 to 1.
template <class T>
T grid_coordinate(int64_t i, int64_t size) {
  return T{2} * static_cast<T>(i) / static_cast<T>(size - 1) - 1;
}

// The position in the map, along one axis, of an output. t: the three coefficients of the axis; a and b: the output's
// column and row coordinates; `cells`: the size of the map.
template <class T>
T sampled_position(const T* t, T a, T b, int64_t cells) {
  return (t[0] * a + t[1] * b + t[2] + 1) * static_cast<T>(cells - 1) / 2;
}

struct Sampling {
  int64_t channels = 0, height = 0, width = 0;  // dimensions of the map that is sampled
  int64_t output_height = 0, output_width = 0;
};

// The position, on the axis with `cells` cells, at which output (row, column) is sampled.
template <class T>
Place<T> sampled_place(const Sampling& s, const T* t, int64_t row, int64_t column, int64_t cells) {
  const float single[] = {static_cast<float>(t[0]), static_cast<float>(t[1]), static_cast<float>(t[2])};
  const float chosen = sampled_position<float>(single, grid_coordinate<float>(column, s.output_width),
                                               grid_coordinate<float>(row, s.output_height), cells);
  // Far outside the map (also for NaN), the exact distance does not matter. Integers of this size are exact in float.
  constexpr float kFar = 1 << 20;
  if (!(std::abs(chosen) < kFar)) return {-2, 0};
  Place<T> place{static_cast<int64_t>(std::floor(chosen)), 0};
  const T exact = sampled_position<T>(t, grid_coordinate<T>(column, s.output_width),
                                      grid_coordinate<T>(row, s.output_height), cells);
  place.beyond = exact - static_cast<T>(place.cell);
  return place;
}

// x [channels, height, width], t [6], y [channels, output_height, output_width], row-major. Instantiated for float and
// double.
template <class T>
void sample_map(const Sampling& sampling, const T* x, const T* t, T* y);
// Computes the gradients with respect to x and t, and adds them to dx and dt, either of which may be null.
template <class T>
void sample_map_backward(const Sampling& sampling, const T* x, const T* t, const T* dy, T* dx, T* dt);

}  // namespace dtrain::exec
