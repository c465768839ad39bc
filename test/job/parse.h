// Shorthands for parsing flags in tests.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "job/flags/flags.h"
#include "support/catch.h"

namespace dtrain::job {

using Variables = std::map<std::string, std::string>;

inline Environment variables(const Variables& values) {
  return [values](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

// Parses flags that must be valid. --data-dir is given, so that missing data is not an error.
inline Flags parsed(std::vector<std::string> arguments, const Variables& environment = {}) {
  arguments.insert(arguments.begin(), {"--data-dir", "data/some"});
  const Result<Parsed> result = parse_flags(arguments, variables(environment));
  INFO((result ? "" : result.error().text()));
  REQUIRE(result);
  return result->flags;
}

// Parses flags that must be refused, and returns the error as the user reads it.
inline std::string refused(std::vector<std::string> arguments, Code code = Code::kUsage,
                           const Variables& environment = {}) {
  arguments.insert(arguments.begin(), {"--data-dir", "data/some"});
  const Result<Parsed> result = parse_flags(arguments, variables(environment));
  REQUIRE_FALSE(result);
  CHECK(result.error().code == code);
  return result.error().text();
}

}  // namespace dtrain::job
