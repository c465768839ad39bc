#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>

namespace dtrain::test {

// What DLBS's log parser finds, by its regular expression; the last value of a name wins.
inline std::map<std::string, nlohmann::json> parsed_log(const std::string& log) {
  const std::regex pattern("[ \t]*__(.+?(?=__[ \t]*[=]))__[ \t]*=(.+)");
  std::istringstream lines(log);
  std::map<std::string, nlohmann::json> found;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_search(line, match, pattern, std::regex_constants::match_continuous)) {
      found[match[1]] = nlohmann::json::parse(match[2].str());
    }
  }
  return found;
}

}  // namespace dtrain::test
