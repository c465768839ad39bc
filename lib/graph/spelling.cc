#include "graph/spelling.h"

#include <algorithm>

namespace dtrain::graph {

Attributes::Iterator Attributes::find(std::string_view key) const {
  const auto found = std::ranges::lower_bound(sorted_, key, {}, &Attribute::first);
  return found != sorted_.end() && found->first == key ? found : sorted_.end();
}

std::string& Attributes::operator[](std::string key) {
  auto place = std::ranges::lower_bound(sorted_, key, {}, &Attribute::first);
  if (place == sorted_.end() || place->first != key) place = sorted_.emplace(place, std::move(key), "");
  return place->second;
}

void Attributes::try_emplace(std::string key, std::string text) {
  if (!contains(key)) (*this)[std::move(key)] = std::move(text);
}

}  // namespace dtrain::graph
