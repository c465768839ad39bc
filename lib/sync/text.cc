#include "sync/text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>
#include <vector>

#include "base/words.h"

namespace dtrain::sync {
namespace {

constexpr size_t kWorkersMax = 65536;  // maximum number of workers in a parsed policy

template <class Number>
bool parse_number(std::string_view word, Number& number) {
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && stop == word.data() + word.size();
}

struct EventText {
  std::string operator()(const Push& e) const { return fmt::format("push {} step {}", e.worker, e.step); }
  std::string operator()(const Pull& e) const { return fmt::format("pull {} step {}", e.worker, e.step); }
  std::string operator()(const Refresh& e) const { return fmt::format("refresh {} step {}", e.worker, e.step); }
  std::string operator()(const Join& e) const { return fmt::format("join {} step {}", e.worker, e.step); }
  std::string operator()(const Leave& e) const { return fmt::format("leave {}", e.worker); }
};

struct EffectText {
  std::string operator()(const Add& e) const { return fmt::format("add {} to group {}", e.worker, e.group); }
  std::string operator()(const Drop& e) const { return fmt::format("drop {} step {}", e.worker, e.step); }
  std::string operator()(const Late& e) const { return fmt::format("late {} step {}", e.worker, e.step); }
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

// Removes "WORD NUMBER" from the end of `words` if it is there.
bool take_option(std::vector<std::string_view>& words, std::string_view word, uint64_t& number) {
  const size_t n = words.size();
  if (n < 2 || words[n - 2] != word || !parse_number(words[n - 1], number)) return false;
  words.resize(n - 2);
  return true;
}

std::optional<std::vector<uint32_t>> numbers_of(const std::vector<std::string_view>& words, size_t from) {
  std::vector<uint32_t> numbers;
  for (size_t i = from; i < words.size(); i++) {
    uint32_t number = 0;
    if (!parse_number(words[i], number)) return std::nullopt;
    numbers.push_back(number);
  }
  return numbers;
}

std::optional<Policy> policy_of(std::vector<std::string_view> words) {
  if (words.empty()) return std::nullopt;
  const std::string_view scheme = words[0];
  uint64_t lead = 0, backup = 0;
  const bool has_lead = (scheme == "ssp" || scheme == "gsp") && take_option(words, "lead", lead);
  const bool has_backup = scheme == "bsp" && take_option(words, "backup", backup);
  const auto numbers = numbers_of(words, 1);
  if (!numbers || numbers->empty() || numbers->size() > kWorkersMax) return std::nullopt;
  if (scheme == "gsp") {
    if (*std::max_element(numbers->begin(), numbers->end()) >= numbers->size()) return std::nullopt;
    return gsp(*numbers, has_lead ? std::optional(lead) : std::nullopt);
  }
  const uint32_t workers = numbers->front();
  if (numbers->size() > 1 || workers > kWorkersMax || (has_backup && backup >= workers)) return std::nullopt;
  if (scheme == "bsp") return bsp(workers, static_cast<uint32_t>(backup));
  if (scheme == "asp") return asp(workers);
  if (scheme == "ssp" && has_lead) return ssp(workers, lead);
  return std::nullopt;
}

}  // namespace

std::string to_text(const Event& event) {
  return std::visit(EventText(), event);
}
std::string to_text(const Effect& effect) {
  return std::visit(EffectText(), effect);
}

std::string to_text(const Policy& policy) {
  const size_t workers = policy.group_of.size();
  const std::string lead = policy.lead_max ? fmt::format(" lead {}", *policy.lead_max) : "";
  if (policy.snapshots) return fmt::format("gsp {}{}", fmt::join(policy.group_of, " "), lead);
  if (policy.lead_max) return fmt::format("ssp {}{}", workers, lead);
  const bool one_group = std::all_of(policy.group_of.begin(), policy.group_of.end(), [](Group g) { return g == 0; });
  if (!one_group) return fmt::format("asp {}", workers);
  return fmt::format("bsp {}{}", workers, policy.backup > 0 ? fmt::format(" backup {}", policy.backup) : "");
}

Result<Event> parse_event(std::string_view line) {
  const std::vector<std::string_view> words = words_of(line);
  Worker worker = 0;
  Step step = 0;
  const bool has_worker = words.size() >= 2 && parse_number(words[1], worker);
  const bool has_step = has_worker && words.size() == 4 && words[2] == "step" && parse_number(words[3], step);
  if (has_step && words[0] == "push") return Push{worker, step};
  if (has_step && words[0] == "pull") return Pull{worker, step};
  if (has_step && words[0] == "refresh") return Refresh{worker, step};
  if (has_step && words[0] == "join") return Join{worker, step};
  if (has_worker && words.size() == 2 && words[0] == "leave") return Leave{worker};
  return fail(Code::kData, "'{}' is not an event", line);
}

Result<Policy> parse_policy(std::string_view line) {
  std::optional<Policy> policy = policy_of(words_of(line));
  if (!policy) return fail(Code::kData, "'{}' is not a policy", line);
  return *std::move(policy);
}

}  // namespace dtrain::sync
