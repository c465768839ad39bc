#include "sync/text.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace dtrain::sync {
namespace {

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const size_t space = std::min(line.find(' '), line.size());
    if (space > 0) words.push_back(line.substr(0, space));
    line.remove_prefix(std::min(space + 1, line.size()));
  }
  return words;
}

template <class Number>
bool parse_number(std::string_view word, Number& number) {
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && stop == word.data() + word.size();
}

struct EventText {
  std::string operator()(const Push& e) const { return fmt::format("push {} step {}", e.worker, e.step); }
  std::string operator()(const Pull& e) const { return fmt::format("pull {} step {}", e.worker, e.step); }
  std::string operator()(const Join& e) const { return fmt::format("join {} step {}", e.worker, e.step); }
  std::string operator()(const Leave& e) const { return fmt::format("leave {}", e.worker); }
};

struct EffectText {
  std::string operator()(const Add& e) const { return fmt::format("add {} to group {}", e.worker, e.group); }
  std::string operator()(const Drop& e) const { return fmt::format("drop {} step {}", e.worker, e.step); }
  std::string operator()(const Apply& e) const {
    return fmt::format("apply group {} staleness {}", e.group, e.staleness);
  }
  std::string operator()(const Keep& e) const { return fmt::format("keep group {}", e.group); }
  std::string operator()(const Answer& e) const {
    return fmt::format("answer {} group {} step {}", e.worker, e.group, e.step);
  }
  std::string operator()(const Park& e) const { return fmt::format("park {} waits for {}", e.worker, e.waits_for); }
  std::string operator()(const Reject& e) const { return fmt::format("reject {}: {}", e.worker, e.why); }
};

}  // namespace

std::string to_text(const Event& event) {
  return std::visit(EventText(), event);
}
std::string to_text(const Effect& effect) {
  return std::visit(EffectText(), effect);
}

Result<Event> parse_event(std::string_view line) {
  const std::vector<std::string_view> words = words_of(line);
  Worker worker = 0;
  Step step = 0;
  const bool has_worker = words.size() >= 2 && parse_number(words[1], worker);
  const bool has_step = has_worker && words.size() == 4 && words[2] == "step" && parse_number(words[3], step);
  if (has_step && words[0] == "push") return Push{worker, step};
  if (has_step && words[0] == "pull") return Pull{worker, step};
  if (has_step && words[0] == "join") return Join{worker, step};
  if (has_worker && words.size() == 2 && words[0] == "leave") return Leave{worker};
  return fail(Code::kData, "'{}' is not an event", line);
}

Result<Policy> parse_policy(std::string_view line) {
  const std::vector<std::string_view> words = words_of(line);
  uint32_t workers = 0;
  Step lead = 0;
  const std::string_view scheme = words.empty() ? "" : words[0];
  const bool counted = words.size() >= 2 && parse_number(words[1], workers) && workers <= 65536;
  if (scheme == "bsp" && counted && words.size() == 2) return bsp(workers);
  if (scheme == "asp" && counted && words.size() == 2) return asp(workers);
  if (scheme == "ssp" && counted && words.size() == 4 && words[2] == "lead" && parse_number(words[3], lead)) {
    return ssp(workers, lead);
  }
  std::vector<Group> groups;
  for (size_t i = 1; i < words.size(); i++) {
    Group group = 0;
    if (scheme != "gsp" || !parse_number(words[i], group) || group >= words.size()) {
      return fail(Code::kData, "'{}' is not a policy", line);
    }
    groups.push_back(group);
  }
  if (groups.empty()) return fail(Code::kData, "'{}' is not a policy", line);
  return gsp(std::move(groups));
}

}  // namespace dtrain::sync
