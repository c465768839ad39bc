// Catch2: version 2 (Debian 12) is one header, version 3 (Debian 13) a library with many. The tests use the names of
// version 2.
#pragma once

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_predicate.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

namespace Catch {
namespace Matchers {

inline StringContainsMatcher Contains(const std::string& part) {
  return ContainsSubstring(part);
}

}  // namespace Matchers

using Matchers::Contains;
using Matchers::EndsWith;
using Matchers::Matches;
using Matchers::StartsWith;

}  // namespace Catch

using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
