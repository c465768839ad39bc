#include "kvstore/wire/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace dtrain::kvstore {
namespace {

// Appends the parts of one key, placed by kHash. Empty parts are left out: no process would send them or wait for them.
void cut(uint32_t key, uint64_t elements, uint32_t servers, bool big, std::vector<Slice>& out) {
  const uint32_t parts = big ? servers : 1;
  uint64_t begin = 0;
  for (uint32_t i = 0; i < parts; i++) {
    const double share = static_cast<double>(elements) / parts;
    const auto end = i + 1 == parts ? elements : static_cast<uint64_t>(std::round(share * (i + 1)));
    const uint32_t server = big ? i : static_cast<uint32_t>(uint64_t{key} * 9973 % servers);
    if (end > begin) out.push_back({.key = key, .part = i, .begin = begin, .count = end - begin, .server = server});
    begin = end;
  }
}

void place_balanced(std::vector<Slice>& slices, uint32_t servers) {
  std::vector<size_t> order(slices.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return slices[a].count > slices[b].count; });
  std::vector<uint64_t> load(servers, 0);
  for (const size_t i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    slices[i].server = static_cast<uint32_t>(least - load.begin());
    *least += slices[i].count;
  }
}

// The five numbers of "key:part:begin:count:server".
Result<Slice> parse_slice(std::string_view text) {
  uint64_t field[5] = {};
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  for (size_t i = 0; i < 5; i++) {
    const auto [stop, error] = std::from_chars(at, end, field[i]);
    const bool last = i == 4;
    const bool ends_well = last ? stop == end : stop != end && *stop == ':';
    const bool fits = i == 2 || i == 3 || field[i] <= UINT32_MAX;
    if (error != std::errc() || !ends_well || !fits) {
      return fail(Code::kUsage, "placement: '{}' is not KEY:PART:BEGIN:COUNT:SERVER", text);
    }
    at = stop + 1;
  }
  return Slice{.key = static_cast<uint32_t>(field[0]),
               .part = static_cast<uint32_t>(field[1]),
               .begin = field[2],
               .count = field[3],
               .server = static_cast<uint32_t>(field[4])};
}

}  // namespace

std::vector<Slice> place(std::span<const uint64_t> elements_of_key, uint32_t servers, PlacementRule rule,
                         uint64_t bigarray_bound) {
  DT_CHECK(servers > 0, "no servers");
  std::vector<Slice> slices;
  for (uint32_t key = 0; key < elements_of_key.size(); key++) {
    cut(key, elements_of_key[key], servers, elements_of_key[key] >= bigarray_bound, slices);
  }
  if (rule == PlacementRule::kBalanced) place_balanced(slices, servers);
  return slices;
}

std::string to_text(std::span<const Slice> table) {
  std::string text;
  for (const Slice& s : table) {
    fmt::format_to(std::back_inserter(text), "{}{}:{}:{}:{}:{}", text.empty() ? "" : " ", s.key, s.part, s.begin,
                   s.count, s.server);
  }
  return text;
}

Result<std::vector<Slice>> parse_placement(std::string_view text) {
  std::vector<Slice> table;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    DT_TRY(const Slice slice, parse_slice(text.substr(0, space)));
    table.push_back(slice);
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return table;
}

}  // namespace dtrain::kvstore
