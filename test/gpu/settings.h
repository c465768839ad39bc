// The settings of a run of gpu-check.
#pragma once

#include <string>
#include <vector>

namespace dtrain::gpu {

struct Settings {
  std::string data;  // directory with the images of the stage train (idx files: images.h); empty: none
  std::string only;  // runs only parts whose name contains this; empty: all
  int threads = 1;   // for the reference, which is slow
  double seconds = 360, part_seconds = 120;
};

}  // namespace dtrain::gpu
