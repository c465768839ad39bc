// The files of configs/, the run scripts and this program's license. They are compiled into the program, so every copy
// of the program can create a package.
#pragma once

#include <span>
#include <string_view>

namespace dtrain::package {

struct ShareFile {
  std::string_view name;  // path of the file: "configs/presets/mnist.toml"
  std::string_view content;
};

std::span<const ShareFile> share_files();

}  // namespace dtrain::package
