// Keys to slices to servers: one table, computed once by the scheduler, in the JobSpec, the same for everybody (R-D5).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::kvstore {

// A contiguous part of a key, held by one server.
struct Slice {
  uint32_t key = 0;
  uint32_t part = 0;
  uint64_t begin = 0;  // first element within the key
  uint64_t count = 0;  // elements
  uint32_t server = 0;
  bool operator==(const Slice&) const = default;
};

enum class PlacementRule { kHash, kBalanced };

// Arrays of at least `bigarray_bound` elements are cut over all servers: part i of S has round(n/S (i+1)) - round(n/S
// i) elements, half away from zero; parts of none are left out. The rest stay whole. Slices come in order of (key,
// part).
//   kHash      key k on server (k * 9973) mod S; part i on server i
//   kBalanced  slices by bytes descending onto the least loaded server, ties by (key, part), then by server rank
std::vector<Slice> place(std::span<const uint64_t> elements_of_key, uint32_t servers, PlacementRule rule,
                         uint64_t bigarray_bound);

// One line of text, as the JobSpec holds it: "key:part:begin:count:server ..."; and back (Code::kUsage).
std::string to_text(std::span<const Slice> table);
Result<std::vector<Slice>> parse_placement(std::string_view text);

}  // namespace dtrain::kvstore
