// must(f()) returns the value of a Result that cannot fail in this test. If it does fail, the test ends with the
// error's text.
#pragma once

#include <stdexcept>
#include <utility>

#include "base/error.h"

namespace dtrain::test {

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace dtrain::test
