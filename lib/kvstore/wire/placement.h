// Cuts keys into slices and assigns slices to servers. The scheduler computes the table once and puts it into the
// JobSpec, so all processes use the same one. See docs/protocol.md, "Slices and placement".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::kvstore {

// A contiguous part of a key, held by one server, and small enough for one message: at most kSliceElementsMax elements
// (payload.h).
struct Slice {
  uint32_t key = 0;
  uint32_t part = 0;   // number of the slice within the key, in order of `begin`
  uint64_t begin = 0;  // the slice's first element, counted within the key
  uint64_t count = 0;  // number of elements in the slice
  uint32_t server = 0;
  bool operator==(const Slice&) const = default;
};

enum class PlacementRule { kHash, kBalanced };

// First, each array is divided among the servers. With S servers, an array of n >= `bigarray_bound` elements is divided
// into S portions: portion i has round(n/S (i+1)) - round(n/S i) elements, halves rounded away from zero. Empty
// portions are omitted. A smaller array is one portion.
//  kHash      the portion of key k is on server (k * 9973) mod S; portion i of a divided key is on server i
//  kBalanced  the largest portion first, each on the least loaded server; ties are broken by key and position, then
//             by server rank
// Then each portion is cut into slices of kSliceElementsMax elements, with the remainder in the last one, so the size
// limit of messages does not affect which server holds an element. The slices are returned sorted by (key, part).
std::vector<Slice> place(std::span<const uint64_t> elements_of_key, uint32_t servers, PlacementRule rule,
                         uint64_t bigarray_bound);

// Converts the table to one line of text for the JobSpec, "key:part:begin:count:server ...", and back. Code::kUsage if
// the text is malformed, or if place() cannot have made the table for this number of servers.
std::string to_text(std::span<const Slice> table);
Result<std::vector<Slice>> parse_placement(std::string_view text, size_t servers);

}  // namespace dtrain::kvstore
