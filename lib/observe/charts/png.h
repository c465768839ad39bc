// Charts as PNG files, drawn by Cairo, always on light paper.
#pragma once

#include <memory>
#include <string>

#include "observe/charts/canvas.h"

namespace dtrain::observe {

class PngCanvas : public Canvas {
 public:
  // The bytes of the file. Code::kData if Cairo failed, for example for lack of memory.
  virtual Result<std::string> finish() = 0;
};

// `scale`: physical pixels for each pixel. Loads the module dtrain_charts, because Cairo brings nine other libraries
// and most processes never draw. Code::kUsage if the drawing is larger than Cairo can draw; kStartup if the module
// cannot be loaded (base/module.h).
Result<std::unique_ptr<PngCanvas>> make_png_canvas(double width, double height, double scale);

// The functions that the module provides.
struct ChartsModule {
  decltype(&observe::make_png_canvas) make_png_canvas;
};

}  // namespace dtrain::observe
