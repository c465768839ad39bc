#include "sync/differing_keys.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/words.h"

namespace dtrain::sync::membership {
namespace {

std::map<std::string_view, std::string_view> lines_of(std::string_view text) {
  std::map<std::string_view, std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      lines.emplace(line, "");
    } else {
      lines.emplace(trimmed(line.substr(0, equals)), trimmed(line.substr(equals + 1)));
    }
  }
  return lines;
}

constexpr std::string_view kAny = "auto";
constexpr std::string_view kAbsent = "not given";

}  // namespace

std::vector<std::string> differing_keys(std::string_view job_text, std::string_view joiner_text) {
  const auto job = lines_of(job_text);
  const auto joiner = lines_of(joiner_text);
  std::vector<std::string> differing;
  for (const auto& [key, value] : job) {
    const auto other = joiner.find(key);
    const std::string_view here = other == joiner.end() ? kAbsent : other->second;
    if (here != value && here != kAny) differing.push_back(fmt::format("{} (job: {}, here: {})", key, value, here));
  }
  for (const auto& [key, value] : joiner) {
    if (!job.contains(key) && value != kAny)
      differing.push_back(fmt::format("{} (job: {}, here: {})", key, kAbsent, value));
  }
  return differing;
}

}  // namespace dtrain::sync::membership
