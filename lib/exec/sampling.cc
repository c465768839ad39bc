#include "exec/sampling.h"

#include <array>
#include <optional>

namespace dtrain::exec {

namespace {

// One of the four cells around a sampled position: its index in the map, its weight, and the derivatives of the weight
// with respect to the row and column of the position.
template <class T>
struct Corner {
  int64_t row, column;
  T weight, by_row, by_column;
};

template <class T>
std::array<Corner<T>, 4> corners(const Place<T>& row, const Place<T>& column) {
  const T up = 1 - row.beyond, down = row.beyond, left = 1 - column.beyond, right = column.beyond;
  return {Corner<T>{row.cell, column.cell, up * left, -left, -up},
          {row.cell, column.cell + 1, up * right, -right, up},
          {row.cell + 1, column.cell, down * left, left, -down},
          {row.cell + 1, column.cell + 1, down * right, right, down}};
}

// Calls f(row, column, corners) for every output.
template <class T, class F>
void for_each_output(const Sampling& s, const T* t, const F& f) {
  for (int64_t row = 0; row < s.output_height; row++) {
    for (int64_t column = 0; column < s.output_width; column++) {
      f(row, column,
        corners(sampled_place(s, t + 3, row, column, s.height), sampled_place(s, t, row, column, s.width)));
    }
  }
}

// The cell's position in its channel; nullopt outside the map.
template <class T>
std::optional<int64_t> position(const Sampling& s, const Corner<T>& corner) {
  if (corner.row < 0 || corner.row >= s.height || corner.column < 0 || corner.column >= s.width) return std::nullopt;
  return corner.row * s.width + corner.column;
}

}  // namespace

template <class T>
void sample_map(const Sampling& s, const T* x, const T* t, T* y) {
  for_each_output(s, t, [&](int64_t row, int64_t column, const auto& around) {
    for (int64_t c = 0; c < s.channels; c++) {
      T sum = 0;
      for (const Corner<T>& corner : around) {
        const auto at = position(s, corner);
        if (at) sum += corner.weight * x[c * s.height * s.width + *at];
      }
      y[(c * s.output_height + row) * s.output_width + column] = sum;
    }
  });
}

template <class T>
void sample_map_backward(const Sampling& s, const T* x, const T* t, const T* dy, T* dx, T* dt) {
  for_each_output(s, t, [&](int64_t row, int64_t column, const auto& around) {
    T by_row = 0, by_column = 0;
    for (int64_t c = 0; c < s.channels; c++) {
      const T d = dy[(c * s.output_height + row) * s.output_width + column];
      for (const Corner<T>& corner : around) {
        const auto at = position(s, corner);
        if (!at) continue;
        const int64_t cell = c * s.height * s.width + *at;
        by_row += d * corner.by_row * x[cell];
        by_column += d * corner.by_column * x[cell];
        if (dx != nullptr) dx[cell] += d * corner.weight;
      }
    }
    if (dt == nullptr) return;
    const T a = grid_coordinate<T>(column, s.output_width), b = grid_coordinate<T>(row, s.output_height);
    by_column *= static_cast<T>(s.width - 1) / 2;
    by_row *= static_cast<T>(s.height - 1) / 2;
    dt[0] += by_column * a, dt[1] += by_column * b, dt[2] += by_column;
    dt[3] += by_row * a, dt[4] += by_row * b, dt[5] += by_row;
  });
}

template void sample_map<float>(const Sampling&, const float*, const float*, float*);
template void sample_map<double>(const Sampling&, const double*, const double*, double*);
template void sample_map_backward<float>(const Sampling&, const float*, const float*, const float*, float*, float*);
template void sample_map_backward<double>(const Sampling&, const double*, const double*, const double*, double*,
                                          double*);

}  // namespace dtrain::exec
