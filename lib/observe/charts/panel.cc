#include "observe/charts/panel.h"

namespace dtrain::observe {
namespace {

constexpr double kTitleHeight = 22;
const TextStyle kTitleStyle{.size = 14, .bold = true};

}  // namespace

double draw_title(const std::string& title, double y, double width, Canvas* canvas, Canvas& ruler) {
  if (canvas != nullptr) canvas->text({kPanelMargin, y + 13}, fitted(ruler, title, kTitleStyle, width), kTitleStyle);
  return kTitleHeight;
}

}  // namespace dtrain::observe
