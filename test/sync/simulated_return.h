// What a simulated worker knows about the servers and about how to go back when one of them was lost, as
// train/server_return.h and kvstore::ServerLinks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "simulated_position.h"

namespace dtrain::sync::membership {

// What the worker keeps before a step of whose number the servers have snapshots.
struct ReturnPoint {
  uint64_t version = 0;
  SimulatedPosition at = {};
  uint64_t statistics = 0;
};

// Why the worker comes to the barrier at which all say how they have fared.
enum class ReturnStage {
  kNone,        // it is on its way
  kTorn,        // it cannot complete its step
  kHasShared,   // it has shared its statistics with the others, or could not
  kHasWeights,  // it has got the weights of the snapshots, or could not
};

struct ReturningWorker {
  std::vector<uint64_t> links = {};               // by the server's rank: the incarnation to which its connection leads
  uint64_t view = 0;                              // number of the newest
  bool is_broken = false;                         // a server was lost: requests cannot be completed
  bool lacks_server = false;                      // not all servers are there again
  std::deque<ReturnPoint> points = {};            // sorted by version
  std::map<uint32_t, uint64_t> newcomer_at = {};  // by rank: the first step of the worker that has joined last
  ReturnStage stage = ReturnStage::kNone;
  bool is_returning = false;  // it goes back, and has not got the weights yet
  bool has_returned = false;  // it has got them
  uint64_t version = 0;       // to which it goes back
  uint64_t statistics = 0;
  uint64_t restores = 0;                    // as in SliceRequest
  std::function<void()> on_view = nullptr;  // what it does when it has the view with this number
  uint64_t awaited_view = 0;

  static constexpr size_t kPointsMax = 6;
  void keep(uint64_t next, const SimulatedPosition& at) {
    while (!points.empty() && points.back().version >= next) points.pop_back();
    if (points.size() == kPointsMax) points.pop_front();
    points.push_back({next, at, statistics});
  }
  // The largest version to which the worker with this rank can go back. A newcomer needs no point of a version at which
  // it was not there, or was about to begin.
  [[nodiscard]] std::optional<uint64_t> newest_version(uint32_t own) const {
    if (!points.empty()) return points.back().version;
    const auto first = newcomer_at.find(own);
    return first == newcomer_at.end() ? std::nullopt : std::optional(first->second);
  }
  // The run goes back to this version, so what comes later will happen again.
  void forget_after(uint64_t its_version) {
    while (!points.empty() && points.back().version > its_version) points.pop_back();
  }
  // All have gone back.
  void settle(const SimulatedPosition& at) {
    keep(version, at);
    if (version == 0) newcomer_at.clear();
    for (auto& [rank, first] : newcomer_at) first = std::min(first, version - 1);
  }
  [[nodiscard]] const ReturnPoint* point_at(uint64_t its_version) const {
    const auto found = std::ranges::find(points, its_version, &ReturnPoint::version);
    return found == points.end() ? nullptr : &*found;
  }
  [[nodiscard]] std::vector<uint32_t> newcomers_since(uint64_t its_version) const {
    std::vector<uint32_t> ranks;
    for (const auto& [rank, first] : newcomer_at) {
      if (first >= its_version) ranks.push_back(rank);
    }
    return ranks;
  }
};

}  // namespace dtrain::sync::membership
