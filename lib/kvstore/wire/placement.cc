#include "kvstore/wire/placement.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <system_error>

#include "kvstore/wire/payload.h"

namespace dtrain::kvstore {
namespace {

// The part of a key that one server holds.
struct Portion {
  uint32_t key = 0;
  uint64_t begin = 0, count = 0;  // first element and number of elements, within the key
  uint32_t server = 0;
};

// Appends the portions of one key, placed by kHash. Empty portions are omitted, because no process would send them or
// wait for them.
void divide(uint32_t key, uint64_t elements, uint32_t servers, bool big, std::vector<Portion>& out) {
  const uint32_t portions = big ? servers : 1;
  uint64_t begin = 0;
  for (uint32_t i = 0; i < portions; i++) {
    const double share = static_cast<double>(elements) / portions;
    const auto end = i + 1 == portions ? elements : static_cast<uint64_t>(std::round(share * (i + 1)));
    const uint32_t server = big ? i : static_cast<uint32_t>(uint64_t{key} * 9973 % servers);
    if (end > begin) out.push_back({.key = key, .begin = begin, .count = end - begin, .server = server});
    begin = end;
  }
}

void place_balanced(std::vector<Portion>& portions, uint32_t servers) {
  std::vector<size_t> order(portions.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return portions[a].count > portions[b].count; });
  std::vector<uint64_t> load(servers, 0);
  for (const size_t i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    portions[i].server = static_cast<uint32_t>(least - load.begin());
    *least += portions[i].count;
  }
}

std::vector<Slice> cut(const std::vector<Portion>& portions) {
  std::vector<Slice> slices;
  for (const Portion& portion : portions) {
    for (uint64_t done = 0; done < portion.count; done += kSliceElementsMax) {
      const bool same_key = !slices.empty() && slices.back().key == portion.key;
      slices.push_back({.key = portion.key,
                        .part = same_key ? slices.back().part + 1 : 0,
                        .begin = portion.begin + done,
                        .count = std::min<uint64_t>(portion.count - done, kSliceElementsMax),
                        .server = portion.server});
    }
  }
  return slices;
}

// Parses the five numbers of "key:part:begin:count:server".
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

// What is wrong with a slice that follows `before` (null for the first slice). Empty if nothing is.
std::string fault_of(const Slice& slice, const Slice* before, size_t servers) {
  if (slice.server >= servers) return fmt::format("there is no server {} among {} servers", slice.server, servers);
  if (slice.count == 0) return "it has no elements";
  if (slice.count > kSliceElementsMax) return fmt::format("it has more than {} elements", kSliceElementsMax);
  if (before != nullptr && slice.key < before->key) return fmt::format("it comes after key {}", before->key);
  const bool same_key = before != nullptr && slice.key == before->key;
  const uint32_t part = same_key ? before->part + 1 : 0;
  if (slice.part != part) return fmt::format("part {} of the key is expected here", part);
  const uint64_t begin = same_key ? before->begin + before->count : 0;
  if (slice.begin != begin) return fmt::format("it should begin at element {}", begin);
  return "";
}

}  // namespace

std::vector<Slice> place(std::span<const uint64_t> elements_of_key, uint32_t servers, PlacementRule rule,
                         uint64_t bigarray_bound) {
  DT_CHECK(servers > 0, "no servers");
  std::vector<Portion> portions;
  for (uint32_t key = 0; key < elements_of_key.size(); key++) {
    divide(key, elements_of_key[key], servers, elements_of_key[key] >= bigarray_bound, portions);
  }
  if (rule == PlacementRule::kBalanced) place_balanced(portions, servers);
  return cut(portions);
}

std::string to_text(std::span<const Slice> table) {
  std::string text;
  for (const Slice& s : table) {
    fmt::format_to(std::back_inserter(text), "{}{}:{}:{}:{}:{}", text.empty() ? "" : " ", s.key, s.part, s.begin,
                   s.count, s.server);
  }
  return text;
}

Result<std::vector<Slice>> parse_placement(std::string_view text, size_t servers) {
  std::vector<Slice> table;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, space);
    DT_TRY(const Slice slice, parse_slice(word));
    const std::string fault = fault_of(slice, table.empty() ? nullptr : &table.back(), servers);
    if (!fault.empty()) return fail(Code::kUsage, "placement: slice '{}': {}", word, fault);
    table.push_back(slice);
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return table;
}

}  // namespace dtrain::kvstore
