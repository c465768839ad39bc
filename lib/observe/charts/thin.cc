#include "observe/charts/thin.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace dtrain::observe {
namespace {

// Points of one column, as indexes.
struct Column {
  size_t first, lowest, highest, last;
};

void keep(const std::vector<Point>& points, const Column& column, std::vector<Point>& kept) {
  std::array<size_t, 4> chosen = {column.first, column.lowest, column.highest, column.last};
  std::sort(chosen.begin(), chosen.end());
  for (size_t i = 0; i < chosen.size(); i++) {
    if (i == 0 || chosen[i] != chosen[i - 1]) kept.push_back(points[chosen[i]]);
  }
}

bool is_gap(const Point& point) {
  return std::isnan(point.x) || std::isnan(point.y);
}

}  // namespace

std::vector<Point> thin(const std::vector<Point>& points, const std::function<int(double x)>& column) {
  std::vector<Point> kept;
  for (size_t i = 0; i < points.size();) {
    if (is_gap(points[i])) {
      if (kept.empty() || !is_gap(kept.back())) kept.push_back(points[i]);
      i++;
      continue;
    }
    Column one{i, i, i, i};
    const int at = column(points[i].x);
    for (; i < points.size() && !is_gap(points[i]) && column(points[i].x) == at; i++) {
      if (points[i].y < points[one.lowest].y) one.lowest = i;
      if (points[i].y > points[one.highest].y) one.highest = i;
      one.last = i;
    }
    keep(points, one, kept);
  }
  return kept;
}

}  // namespace dtrain::observe
