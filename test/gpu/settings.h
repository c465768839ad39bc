// What a run of gpu-check is asked for.
#pragma once

#include <string>
#include <vector>

namespace dtrain::gpu {

struct Settings {
  std::string data;  // the folder with the pictures of the stage train (idx files: pictures.h); empty: none
  std::string only;  // parts whose name has this in it; empty: all
  int threads = 1;   // for the reference, which is slow
  double seconds = 360, part_seconds = 120;
};

}  // namespace dtrain::gpu
