#include "observe/charts/legend.h"

#include <algorithm>
#include <array>

namespace dtrain::observe {
namespace {

constexpr double kRow = 17, kSample = 24, kSpace = 6, kBetween = 16;
const TextStyle kName{.size = 11.5};

void draw_sample(const LegendEntry& entry, double x, double y, Canvas& canvas) {
  const Ink ink{Ink::Kind::kSeries, entry.color};
  if (entry.is_bar) return canvas.box({x + kSample - 12, y - 6, 12, 12}, ink, {});
  const std::array<Point, 2> ends = {Point{x, y}, Point{x + kSample, y}};
  canvas.line(ends, {ink, 2, entry.dash});
  if (entry.has_marker) canvas.mark({x + kSample / 2, y}, ink, entry.color, {});
}

}  // namespace

double draw_legend(const std::vector<LegendEntry>& entries, const Box& place, Canvas* canvas, Canvas& ruler) {
  double x = place.x, y = place.y + kRow / 2;
  for (const LegendEntry& entry : entries) {
    const double room = place.width - kSample - kSpace;
    const std::string name = fitted(ruler, entry.name, kName, room);
    const double width = kSample + kSpace + ruler.text_width(name, kName);
    if (x > place.x && x + width > place.x + place.width) x = place.x, y += kRow;
    if (canvas != nullptr) {
      draw_sample(entry, x, y, *canvas);
      canvas->text({x + kSample + kSpace, y + 4}, name, kName);
    }
    x += width + kBetween;
  }
  return entries.empty() ? 0 : y + kRow / 2 - place.y;
}

}  // namespace dtrain::observe
