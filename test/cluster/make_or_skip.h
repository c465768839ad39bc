#pragma once

#include <memory>
#include <string>

#include "support/catch.h"

namespace dtrain::test {

// Returns T::make(arguments..., why_not). If this host does not permit it, prints the cause and returns null.
template <class T, class... Arguments>
std::unique_ptr<T> make_or_skip(Arguments... arguments) {
  std::string why_not;
  std::unique_ptr<T> made = T::make(arguments..., why_not);
  if (made == nullptr) WARN("skipped: " << why_not);
  return made;
}

}  // namespace dtrain::test
