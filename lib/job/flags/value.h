// Converts flag values to and from text. parse_value() recovers exactly the value that format_value() wrote.
//
// Values are integers, floating-point numbers, booleans (boolean_of), texts, lists separated by commas, times ("500
// ms", "2s", "5m", "1h"; seconds if there is no unit), and enumerations by name. An error says what is wrong with the
// text; the caller adds the name of the flag.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "job/flags/choices.h"
#include "job/flags/gpu_list.h"
#include "job/process/process_name.h"

namespace dtrain::job {

template <class Enum>
struct Named {
  std::string_view name;
  Enum value;
};

// The names of an enumeration's values. Templates below find the right overload by the enumeration's type.
constexpr std::array<Named<Role>, 4> names_of(Role) {
  return {
      {{"none", Role::kNone}, {"scheduler", Role::kScheduler}, {"server", Role::kServer}, {"worker", Role::kWorker}}};
}
constexpr std::array<Named<UpdateOn>, 3> names_of(UpdateOn) {
  return {{{"auto", UpdateOn::kAuto}, {"store", UpdateOn::kStore}, {"worker", UpdateOn::kWorker}}};
}
constexpr std::array<Named<Placement>, 2> names_of(Placement) {
  return {{{"hash", Placement::kHash}, {"balanced", Placement::kBalanced}}};
}
constexpr std::array<Named<OnNan>, 2> names_of(OnNan) {
  return {{{"fail", OnNan::kFail}, {"skip", OnNan::kSkip}}};
}
constexpr std::array<Named<WarmupStrategy>, 5> names_of(WarmupStrategy) {
  return {{{"linear", WarmupStrategy::kLinear},
           {"power2", WarmupStrategy::kPower2},
           {"sqrt", WarmupStrategy::kSqrt},
           {"lars", WarmupStrategy::kLars},
           {"none", WarmupStrategy::kNone}}};
}
constexpr std::array<Named<LrScheduler>, 5> names_of(LrScheduler) {
  return {{{"auto", LrScheduler::kAuto},
           {"factor", LrScheduler::kFactor},
           {"multifactor", LrScheduler::kMultifactor},
           {"poly", LrScheduler::kPoly},
           {"cosine", LrScheduler::kCosine}}};
}
constexpr std::array<Named<HostOrder>, 2> names_of(HostOrder) {
  return {{{"spread", HostOrder::kSpread}, {"pack", HostOrder::kPack}}};
}
constexpr std::array<Named<OnWorkerLoss>, 3> names_of(OnWorkerLoss) {
  return {{{"fail", OnWorkerLoss::kFail}, {"wait", OnWorkerLoss::kWait}, {"shrink", OnWorkerLoss::kShrink}}};
}
constexpr std::array<Named<Reshare>, 2> names_of(Reshare) {
  return {{{"epoch", Reshare::kEpoch}, {"now", Reshare::kNow}}};
}
constexpr std::array<Named<ElasticBatch>, 3> names_of(ElasticBatch) {
  return {{{"off", ElasticBatch::kOff}, {"keep", ElasticBatch::kKeep}, {"scale", ElasticBatch::kScale}}};
}
constexpr std::array<Named<Ungrouped>, 2> names_of(Ungrouped) {
  return {{{"error", Ungrouped::kError}, {"own", Ungrouped::kOwn}}};
}
constexpr std::array<Named<GspWeight::Rule>, 4> names_of(GspWeight::Rule) {
  return {{{"inverse", GspWeight::Rule::kInverse},
           {"none", GspWeight::Rule::kNone},
           {"power", GspWeight::Rule::kPower},
           {"floor", GspWeight::Rule::kFloor}}};
}
constexpr std::array<Named<LogFormat>, 2> names_of(LogFormat) {
  return {{{"1.9", LogFormat::kNew}, {"legacy", LogFormat::kLegacy}}};
}

Result<> parse_value(std::string_view text, bool& value);
Result<> parse_value(std::string_view text, int64_t& value);  // may end in K, M or G (powers of 1024)
Result<> parse_value(std::string_view text, int& value);
Result<> parse_value(std::string_view text, uint64_t& value);
Result<> parse_value(std::string_view text, double& value);
Result<> parse_value(std::string_view text, std::string& value);
Result<> parse_value(std::string_view text, std::chrono::milliseconds& value);
Result<> parse_value(std::string_view text, GspWeight& value);
Result<> parse_value(std::string_view text, Resize& value);

std::string format_value(bool value);
std::string format_value(int64_t value);
std::string format_value(int value);
std::string format_value(uint64_t value);
std::string format_value(double value);
std::string format_value(const std::string& value);
std::string format_value(std::chrono::milliseconds value);
std::string format_value(const GspWeight& value);
std::string format_value(const Resize& value);

// The boolean that a word means: 1, true, yes, on, or 0, false, no, off, in any case. Nullopt for other words.
std::optional<bool> boolean_of(std::string_view text);
// Splits "a, b,c" at the commas and strips blanks around the parts. An empty text has no parts.
std::vector<std::string_view> split_list(std::string_view text);
// For example: "there is no 'scheduller', did you mean 'scheduler'? Choose from: scheduler, server, worker"
tl::unexpected<Error> unknown_choice(std::string_view text, const std::vector<std::string>& choices);

template <class T>
Result<> parse_value(std::string_view text, std::optional<T>& value) {
  T parsed{};
  DT_TRY_VOID(parse_value(text, parsed));
  value = std::move(parsed);
  return {};
}

template <class T>
Result<> parse_value(std::string_view text, std::vector<T>& value) {
  std::vector<T> parsed;
  for (const std::string_view part : split_list(text)) DT_TRY_VOID(parse_value(part, parsed.emplace_back()));
  value = std::move(parsed);
  return {};
}

template <class Enum>
requires std::is_enum_v<Enum> Result<> parse_value(std::string_view text, Enum& value) {
  std::vector<std::string> choices;
  for (const Named<Enum>& named : names_of(Enum{})) {
    if (named.name == text) {
      value = named.value;
      return {};
    }
    choices.emplace_back(named.name);
  }
  return unknown_choice(text, choices);
}

template <class T>
std::string format_value(const std::optional<T>& value) {
  return value ? format_value(*value) : "";
}

template <class T>
std::string format_value(const std::vector<T>& value) {
  std::string text;
  for (const T& part : value) text += (text.empty() ? "" : ",") + format_value(part);
  return text;
}

template <class Enum>
requires std::is_enum_v<Enum> std::string format_value(Enum value) {
  for (const Named<Enum>& named : names_of(Enum{})) {
    if (named.value == value) return std::string(named.name);
  }
  DT_CHECK(false, "an enumeration's value {} has no name", static_cast<int>(value));
  return {};
}

// The smallest and the largest number in a value, to be checked against the flag's range. Times are in seconds.
struct NumberRange {
  double min = 0, max = 0;
  std::string_view unit = {};  // unit of the numbers, for messages
};
template <class Number>
concept HasRange = std::is_same_v<Number, int64_t> || std::is_same_v<Number, int> || std::is_same_v<Number, double>;

template <HasRange Number>
std::optional<NumberRange> range_of(const Number& value) {
  return NumberRange{static_cast<double>(value), static_cast<double>(value)};
}
inline std::optional<NumberRange> range_of(const std::chrono::milliseconds& value) {
  const double seconds = std::chrono::duration<double>(value).count();
  return NumberRange{seconds, seconds, " s"};
}
inline std::optional<NumberRange> range_of(const Resize& value) {
  return value.edge == Resize::kFit ? std::nullopt : range_of(value.edge);
}
// All other types either hold no numbers, check them when they are parsed (GpuList), or have no range (uint64_t).
template <class T>
std::optional<NumberRange> range_of(const T&) {
  return std::nullopt;
}
template <class T>
std::optional<NumberRange> range_of(const std::optional<T>& value) {
  return value ? range_of(*value) : std::nullopt;
}
template <class T>
std::optional<NumberRange> range_of(const std::vector<T>& values) {
  std::optional<NumberRange> all;
  for (const T& value : values) {
    const std::optional<NumberRange> one = range_of(value);
    if (!one) return std::nullopt;
    all = all ? NumberRange{std::min(all->min, one->min), std::max(all->max, one->max), one->unit} : *one;
  }
  return all;
}

// True for types whose values hold numbers, for which a flag must give a range.
template <class T>
struct IsNumeric : std::bool_constant<HasRange<T> || std::is_same_v<T, std::chrono::milliseconds> ||
                                      std::is_same_v<T, Resize> || std::is_same_v<T, GpuList>> {};
template <class T>
struct IsNumeric<std::optional<T>> : IsNumeric<T> {};
template <class T>
struct IsNumeric<std::vector<T>> : IsNumeric<T> {};

}  // namespace dtrain::job
