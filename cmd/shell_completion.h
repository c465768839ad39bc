// Completion scripts for shells: sub-commands, flags, and values of flags. A flag whose placeholder is FILE or DIR is
// completed with file names, one with a list of values with that list; other flags get no suggestions.
//
// `commands` includes the sub-command "train", whose flags are also completed without its name.
#pragma once

#include <string>
#include <vector>

#include "command_help.h"

namespace dtrain::cmd {

// Loaded by: source <(dtrain completion bash)
std::string bash_completion(const std::vector<CommandHelp>& commands);
// Loaded by: source <(dtrain completion zsh), or as a file _dtrain in a directory of $fpath.
std::string zsh_completion(const std::vector<CommandHelp>& commands);
// Loaded by: dtrain completion fish | source, or as a file dtrain.fish in ~/.config/fish/completions.
std::string fish_completion(const std::vector<CommandHelp>& commands);

}  // namespace dtrain::cmd
