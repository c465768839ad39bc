// Completion scripts for shells. They complete sub-commands, flags, and values of flags: file names for a flag whose
// placeholder is FILE or DIR, and the listed values for a flag that has a list of values. There are no suggestions for
// the values of other flags.
//
// `commands` includes the sub-command "train". Its flags are also completed if its name is left out.
#pragma once

#include <string>
#include <vector>

#include "command_help.h"

namespace dtrain::cmd {

// To load it: source <(dtrain completion bash)
std::string bash_completion(const std::vector<CommandHelp>& commands);
// To load it: source <(dtrain completion zsh), or save it as a file _dtrain in a directory of $fpath.
std::string zsh_completion(const std::vector<CommandHelp>& commands);
// To load it: dtrain completion fish | source, or save it as a file dtrain.fish in ~/.config/fish/completions.
std::string fish_completion(const std::vector<CommandHelp>& commands);

}  // namespace dtrain::cmd
