#include "tool.h"

namespace dtrain::cmd {

job::RefusedFlag later(std::vector<std::string> spellings) {
  return {std::move(spellings), "is not in this version of dtrain"};
}

}  // namespace dtrain::cmd
