// The manual page of dtrain, in troff with the macros of man(7). To read it, run: dtrain man | man -l -
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "command_help.h"

namespace dtrain::cmd {

std::string manual_page(const std::vector<CommandHelp>& commands, std::string_view version);

}  // namespace dtrain::cmd
