// write_seeds TARGET DIR: writes the seeds of a fuzzer to files in DIR.
#include <fmt/core.h>

#include <fstream>
#include <string_view>

#include "fuzz/targets.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  for (const dtrain::fuzz::Target& target : dtrain::fuzz::targets()) {
    if (std::string_view(argv[1]) != target.name) continue;
    size_t number = 0;
    for (const std::string& seed : target.seeds()) {
      std::ofstream out(fmt::format("{}/seed-{}", argv[2], number++), std::ios::binary);
      if (!(out << seed).flush()) return 1;
    }
    return 0;
  }
  return 2;
}
