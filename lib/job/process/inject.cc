#include "job/process/inject.h"

#include <fmt/ranges.h>
#include <algorithm>

#include "job/flags/value.h"

namespace dtrain::job {

namespace {

constexpr double kLongestMs = 3.6e6;  // the longest time that a rule may give, one hour; no test needs more

template <class Value>
using Rules = std::vector<Inject::Rule<Value>>;

// Reads 0.1, or 10% as in ps-lite.
Result<> parse_rule(std::string_view text, double& probability) {
  const bool percent = text.ends_with('%');
  DT_TRY_VOID(parse_value(text.substr(0, text.size() - (percent ? 1 : 0)), probability));
  if (percent) probability /= 100;
  if (probability < 0 || probability > 1)
    return fail(Code::kUsage, "'{}' is not a probability from 0 to 1 or from 0% to 100%", text);
  return {};
}

Result<> parse_ms(std::string_view text, double& ms) {
  DT_TRY_VOID(parse_value(text, ms));
  if (ms < 0 || ms > kLongestMs) return fail(Code::kUsage, "'{}' ms is not between 0 and one hour", text);
  return {};
}

Result<> parse_rule(std::string_view text, InjectDelay& delay) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos || !text.ends_with("ms")) {
    return fail(Code::kUsage, "'{}' does not have the form A..Bms, such as 0..50ms", text);
  }
  DT_TRY_VOID(parse_ms(text.substr(0, dots), delay.min_ms));
  DT_TRY_VOID(parse_ms(text.substr(dots + 2, text.size() - dots - 4), delay.max_ms));
  if (delay.min_ms > delay.max_ms)
    return fail(Code::kUsage, "the first number of '{}' is larger than the second", text);
  return {};
}

template <class Value>
Result<> add_rule(const Inject::Rule<Value>& rule, Rules<Value>& rules) {
  for (const Inject::Rule<Value>& other : rules) {
    if (other.where == rule.where) {
      return fail(Code::kUsage, "the rule is given twice{}", rule.where ? " for " + to_text(*rule.where) : "");
    }
  }
  rules.push_back(rule);
  return {};
}

// Parses "VALUE" or "VALUE@ROLE:RANK".
template <class Value, class Parse>
Result<> read_rule(std::string_view text, const Parse& parse, Rules<Value>& rules) {
  const size_t at = std::min(text.find('@'), text.size());
  Inject::Rule<Value> rule;
  DT_TRY_VOID(parse(text.substr(0, at), rule.value));
  if (at < text.size()) {
    DT_TRY(rule.where, parse_process_name(text.substr(at + 1)));
  }
  return add_rule(rule, rules);
}

template <class Value>
Result<> read_rule(std::string_view text, Rules<Value>& rules) {
  return read_rule(
      text, [](std::string_view part, Value& value) { return parse_rule(part, value); }, rules);
}

Result<> read_pace(std::string_view text, Rules<double>& rules) {
  DT_TRY_VOID(read_rule(text, parse_ms, rules));
  const std::optional<ProcessName>& where = rules.back().where;
  if (where && where->role != Role::kWorker)
    return fail(Code::kUsage, "{} has no steps; name a worker", to_text(*where));
  return {};
}

// Parses "N" or "N+MSms".
Result<> parse_number(std::string_view text, FailPoint& point) {
  const size_t plus = std::min(text.find('+'), text.size());
  DT_TRY_VOID(parse_value(text.substr(0, plus), point.number));
  if (plus == text.size()) return {};
  if (!text.ends_with("ms")) return fail(Code::kUsage, "'{}' does not have the form N+MSms, such as 3+20ms", text);
  return parse_ms(text.substr(plus + 1, text.size() - plus - 3), point.later_ms);
}

// Parses "ROLE:RANK@step:N", "ROLE:RANK@MESSAGE:N" or "ROLE:RANK@MESSAGE:N+MSms".
Result<> read_point(std::string_view text, int signal, Rules<FailPoint>& rules) {
  const size_t at = text.find('@');
  const size_t colon = text.find(':', std::min(at, text.size()));
  if (colon == std::string_view::npos) {
    return fail(Code::kUsage,
                "'{}' does not have the form ROLE:RANK@step:N or ROLE:RANK@MESSAGE:N, such as worker:1@step:40", text);
  }
  Inject::Rule<FailPoint> rule{.value = {.signal = signal}};
  DT_TRY(rule.where, parse_process_name(text.substr(0, at)));
  FailPoint& point = rule.value;
  point.event = text.substr(at + 1, colon - at - 1);
  std::vector<std::string> events = fault_messages();
  events.emplace_back(kStepEvent);
  if (std::find(events.begin(), events.end(), point.event) == events.end()) return unknown_choice(point.event, events);
  DT_TRY_VOID(parse_number(text.substr(colon + 1), point));
  if (point.event == kStepEvent) return add_rule(rule, rules);
  if (rule.where->role == Role::kScheduler)
    return fail(Code::kUsage, "'{}': only workers and servers count messages", text);
  if (point.number == 0) return fail(Code::kUsage, "'{}': messages are counted from 1", text);
  return add_rule(rule, rules);
}

Result<> read_seed(std::string_view text, std::optional<uint64_t>& seed) {
  if (seed) return fail(Code::kUsage, "the rule is given twice");
  return parse_value(text, seed);
}

Result<> read_one(std::string_view key, std::string_view value, Inject& inject) {
  if (key == "drop") return read_rule(value, inject.drop);
  if (key == "dup") return read_rule(value, inject.dup);
  if (key == "delay") return read_rule(value, inject.delay);
  if (key == "step-ms") return read_pace(value, inject.step_ms);
  if (key == "index-ms") return read_pace(value, inject.index_ms);
  if (key == "kill") return read_point(value, SIGKILL, inject.kill);
  if (key == "stop") return read_point(value, SIGSTOP, inject.stop);
  if (key == "seed") return read_seed(value, inject.seed);
  return unknown_choice(key, {"drop", "dup", "delay", "step-ms", "index-ms", "kill", "stop", "seed"});
}

// Returns the rule for the process, or else the rule for all processes.
template <class Value>
std::optional<Value> find(const Rules<Value>& rules, const ProcessName& process) {
  std::optional<Value> value;
  for (const Inject::Rule<Value>& rule : rules) {
    if (rule.where == process) return rule.value;
    if (!rule.where) value = rule.value;
  }
  return value;
}

template <class Value, class Format>
void append(const char* key, const Rules<Value>& rules, const Format& format, std::vector<std::string>& parts) {
  for (const Inject::Rule<Value>& rule : rules) {
    parts.push_back(fmt::format("{}={}{}", key, format(rule.value), rule.where ? "@" + to_text(*rule.where) : ""));
  }
}

void append_points(const char* key, const Rules<FailPoint>& rules, std::vector<std::string>& parts) {
  for (const Inject::Rule<FailPoint>& rule : rules) {
    const FailPoint& point = rule.value;
    const std::string later = point.later_ms > 0 ? fmt::format("+{}ms", format_value(point.later_ms)) : "";
    parts.push_back(fmt::format("{}={}@{}:{}{}", key, to_text(rule.where.value()), point.event, point.number, later));
  }
}

template <class Value>
void append_names(const Rules<Value>& rules, std::vector<ProcessName>& names) {
  for (const Inject::Rule<Value>& rule : rules) {
    if (rule.where) names.push_back(*rule.where);
  }
}

}  // namespace

std::vector<std::string> fault_messages() {
  return {"join",      "join_reply", "barrier",  "barrier_reply", "done",   "done_reply", "hello",
          "heartbeat", "held",       "stop",     "drain",         "border", "trace_now",  "alive",
          "hold",      "stop_after", "stop_job", "finish",        "view",   "leave",      "data"};
}

bool Inject::counts_messages() const {
  const auto counts = [](const Rules<FailPoint>& rules) {
    return std::any_of(rules.begin(), rules.end(), [](const auto& rule) { return rule.value.event != kStepEvent; });
  };
  return counts(kill) || counts(stop);
}

Faults Inject::of(const ProcessName& process) const {
  std::vector<FailPoint> points;
  for (const Rules<FailPoint>* rules : {&kill, &stop}) {
    if (const std::optional<FailPoint> point = find(*rules, process)) points.push_back(*point);
  }
  return {.drop = find(drop, process).value_or(0),
          .dup = find(dup, process).value_or(0),
          .delay = find(delay, process).value_or(InjectDelay{}),
          .step_ms = process.role == Role::kWorker ? find(step_ms, process).value_or(0) : 0,
          .index_ms = process.role == Role::kWorker ? find(index_ms, process).value_or(0) : 0,
          .points = std::move(points)};
}

std::vector<ProcessName> Inject::processes() const {
  std::vector<ProcessName> names;
  append_names(drop, names);
  append_names(dup, names);
  append_names(step_ms, names);
  append_names(index_ms, names);
  append_names(delay, names);
  append_names(kill, names);
  append_names(stop, names);
  return names;
}

Result<> parse_value(std::string_view text, Inject& inject) {
  Inject parsed;
  for (const std::string_view part : split_list(text)) {
    const size_t equals = std::min(part.find('='), part.size());
    const std::string_view key = part.substr(0, equals);
    Result<> read = read_one(key, part.substr(std::min(equals + 1, part.size())), parsed);
    if (!read) return fail(Code::kUsage, "{}: {}", key, read.error().message);
  }
  inject = std::move(parsed);
  return {};
}

std::string format_value(const Inject& inject) {
  const auto number = [](const auto& value) { return format_value(value); };
  std::vector<std::string> parts;
  append("drop", inject.drop, number, parts);
  append("dup", inject.dup, number, parts);
  append(
      "delay", inject.delay,
      [](const InjectDelay& delay) {
        return fmt::format("{}..{}ms", format_value(delay.min_ms), format_value(delay.max_ms));
      },
      parts);
  append("step-ms", inject.step_ms, number, parts);
  append("index-ms", inject.index_ms, number, parts);
  append_points("kill", inject.kill, parts);
  append_points("stop", inject.stop, parts);
  if (inject.seed) parts.push_back(fmt::format("seed={}", *inject.seed));
  return fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace dtrain::job
