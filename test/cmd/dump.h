// Values as text, member by member, so that a test can say which members differ.
#pragma once

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace dtrain::test {

// "trainer.plateau.rate_min" -> "0.01". A type of this namespace, so that the compiler finds every dump() in it.
struct Products : std::map<std::string, std::string> {};

template <class T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_convertible_v<T, std::string_view>;

template <Plain T>
std::string plain_text(const T& value) {
  if constexpr (std::is_enum_v<T>)
    return fmt::format("{}", static_cast<int64_t>(value));
  else
    return fmt::format("{}", value);
}

template <Plain T>
void dump(Products& to, const std::string& path, const T& value) {
  to[path] = plain_text(value);
}

template <class Rep, class Period>
void dump(Products& to, const std::string& path, const std::chrono::duration<Rep, Period>& value) {
  to[path] = fmt::format("{}", value.count());
}

template <class First, class Second>
void dump(Products& to, const std::string& path, const std::map<First, Second>& value) {
  to[path] = fmt::format("{}", value);
}

// What is called or pointed at is no setting.
template <class Signature>
void dump(Products&, const std::string&, const std::function<Signature>&) {}
template <class T>
void dump(Products&, const std::string&, T* const&) {}

template <class T>
void dump(Products& to, const std::string& path, const std::shared_ptr<T>& value) {
  to[path] = value == nullptr ? "none" : "some";
}

template <class T>
void dump(Products& to, const std::string& path, const std::optional<T>& value) {
  if (value)
    dump(to, path, *value);
  else
    to[path] = "none";
}

// Structs are numbered from 0.
template <class T>
void dump(Products& to, const std::string& path, const std::vector<T>& value) {
  if constexpr (Plain<T>) {
    std::string text;
    for (const T& element : value) text += (text.empty() ? "" : " ") + plain_text(element);
    to[path] = text;
  } else {
    for (size_t i = 0; i < value.size(); i++) dump(to, fmt::format("{}.{}", path, i), value[i]);
  }
}

// Writes the members of a struct, whose names are `names`, separated by commas.
template <class... Members>
void dump_members(Products& to, const std::string& path, std::string_view names,
                  const std::tuple<Members...>& members) {
  const auto one = [&](const auto& member) {
    const size_t end = std::min(names.find(','), names.size());
    dump(to, fmt::format("{}.{}", path, names.substr(0, end)), member);
    names.remove_prefix(std::min(end + 2, names.size()));
  };
  std::apply([&](const auto&... member) { (one(member), ...); }, members);
}

// Defines how a struct is dumped. Does not compile unless all its members are listed; their order is that of the
// struct.
#define DT_DUMPED(Type, ...)                                                            \
  inline void dump(Products& dt_to, const std::string& dt_path, const Type& dt_value) { \
    const auto& [__VA_ARGS__] = dt_value;                                               \
    dump_members(dt_to, dt_path, #__VA_ARGS__, std::tie(__VA_ARGS__));                  \
  }

// The names of the values that only one side has, or whose values differ.
inline std::vector<std::string> differences(const Products& before, const Products& after) {
  std::set<std::string> names;
  for (const auto* side : {&before, &after}) {
    const auto& other = side == &before ? after : before;
    for (const auto& [name, value] : *side) {
      const auto found = other.find(name);
      if (found == other.end() || found->second != value) names.insert(name);
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace dtrain::test
