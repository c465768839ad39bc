// Assigns keys to slices and slices to servers. The scheduler computes the table once and puts it into the JobSpec, so
// all processes use the same one. See docs/protocol.md, "Slices and placement".
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

// With S servers, an array of at least `bigarray_bound` elements is cut into S parts: part i has round(n/S (i+1)) -
// round(n/S i) elements, halves rounded away from zero. Empty parts are left out. Smaller arrays stay whole. The slices
// are returned in order of (key, part).
//   kHash      key k on server (k * 9973) mod S; part i of a cut key on server i
//   kBalanced  slices by size, largest first, each onto the least loaded server; ties by (key, part), then by server
//   rank
std::vector<Slice> place(std::span<const uint64_t> elements_of_key, uint32_t servers, PlacementRule rule,
                         uint64_t bigarray_bound);

// The table as one line of text for the JobSpec: "key:part:begin:count:server ...", and back. Error: Code::kUsage.
std::string to_text(std::span<const Slice> table);
Result<std::vector<Slice>> parse_placement(std::string_view text);

}  // namespace dtrain::kvstore
