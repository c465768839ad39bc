// What charts of all kinds share around their data: the title, margins, and the appearance of texts.
#pragma once

#include <string>

#include "observe/charts/canvas.h"

namespace dtrain::observe {

// kPanelMargin: on the left, right and top; kPanelBelow: below the data
inline constexpr double kPanelMargin = 10, kPanelBelow = 36;
inline const TextStyle kPanelLabel{.size = 11, .ink = {Ink::Kind::kMuted}};

// Draws the title and returns its height. If `canvas` is null, nothing is drawn, as in draw().
double draw_title(const std::string& title, double y, double width, Canvas* canvas, Canvas& ruler);

}  // namespace dtrain::observe
