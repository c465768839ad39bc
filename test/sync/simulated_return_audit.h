// What must hold in every simulated job whose servers go back to snapshots when one of them was lost. Like the other
// audit (simulated_audit.h), this one is told in plain numbers what the processes did, and keeps books of its own.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "simulated_snapshots.h"

namespace dtrain::simulated {

class ReturnAudit {
 public:
  using Ms = uint64_t;
  using Weights = sync::SimulatedWeights;
  // `detection_ms`: how long a server that is gone may count as live. `patience_ms`: how long a worker may go on with a
  // request to a lost server.
  ReturnAudit(Ms detection_ms, Ms patience_ms, std::vector<std::vector<uint32_t>> slices_of)
      : detection_ms_(detection_ms), patience_ms_(patience_ms), slices_of_(std::move(slices_of)) {}

  [[nodiscard]] const std::string& broken() const { return broken_; }

  // ---- The servers.

  // A process begins as this server. The servers have gone back so many times before.
  void server_begins(uint32_t server, uint64_t restores) { servers_[server] = {.restores = restores}; }
  void server_goes_back(Ms now, uint32_t server, uint64_t restores, uint64_t version,
                        const std::map<uint32_t, Weights>& content) {
    Server& own = servers_[server];
    require(now, restores > own.restores, "a server went back twice because of the same loss");
    const auto [known, is_first] = version_of_.try_emplace(restores, version);
    require(now, is_first || known->second == version, "servers went back to different versions");
    own.restores = restores;
    own.version = version;
    for (const auto& [slice, weights] : content) {
      Slice& books = slices_[slice];
      const auto before = books.history.find(version);
      const uint64_t expected = before == books.history.end() ? 0 : before->second;
      require(now, weights.version == version, "a slice went back to another version than its snapshot has");
      require(now, weights.value == expected, "a slice went back to weights that it did not have at this version");
      books.version = version;
      books.open = 0;
    }
  }
  // A message of a worker arrives that has gone back so many times, or as often as the others when it began.
  void hears(Ms now, uint32_t server, uint64_t restores, bool is_statistic) {
    const Server& own = servers_[server];
    require(now, restores <= own.restores, "a worker went back before a server did");
    require(now, restores >= own.restores, "a message arrived from before the server went back");
    require(now, is_statistic || own.version || own.restores == 0, "a message arrived at a server without values");
  }
  // Nobody uses what a lost server does after another one has gone back in its place.
  void adds(uint32_t server, uint64_t restores, uint32_t slice) {
    if (restores >= servers_[server].restores) slices_[slice].open++;
  }
  void updates(Ms now, uint32_t server, uint64_t restores, uint32_t slice, const Weights& weights) {
    if (restores < servers_[server].restores) return;
    Slice& books = slices_[slice];
    require(now, weights.version == books.version + 1, "an update did not lead from one version to the next");
    books.version = weights.version;
    books.history[weights.version] = weights.value;
    books.open = 0;
  }

  // ---- The workers.

  // All workers hear that the servers have gone back, for the time with this number.
  void workers_go_back(Ms now, uint64_t restores, uint64_t version) {
    for (uint32_t server = 0; server < slices_of_.size(); server++) {
      const Server& own = servers_[server];
      const bool is_there = own.restores == restores && own.version == version;
      // A server may be lost again since, and then the workers will go back once more.
      require(now, is_there || own.gone_since, "workers went back before all servers had");
      for (const uint32_t slice : slices_of_[server]) {
        if (own.gone_since || !slices_.contains(slice)) continue;
        require(now, slices_[slice].version == version, "a slice has another version than the workers");
        require(now, slices_[slice].open == 0, "a slice that has gone back has a gradient of an open round");
        slices_[slice].history.erase(slices_[slice].history.upper_bound(version), slices_[slice].history.end());
      }
    }
  }
  // All weights that the worker has got are of this version.
  void continues(Ms now, uint64_t version, const std::vector<Weights>& weights) {
    for (uint32_t slice = 0; slice < weights.size(); slice++) {
      require(now, weights[slice].version == version, "a worker got weights of another version than that of its step");
      const auto known = slices_[slice].history.find(version);
      const uint64_t expected = known == slices_[slice].history.end() ? 0 : known->second;
      require(now, weights[slice].value == expected, "a worker got weights that the slice did not have");
    }
  }

  // ---- Lost servers.

  void server_is_gone(Ms now, uint32_t server) {
    if (!servers_[server].gone_since) servers_[server].gone_since = now;
  }
  void server_is_lost(uint32_t server) { servers_[server].is_vacant = true; }
  // The worker has an open request to a server that counts as lost, or has none.
  void waits_for_lost(Ms now, uint64_t worker, bool waits) {
    if (!waits) return void(waits_since_.erase(worker));
    const Ms since = waits_since_.try_emplace(worker, now).first->second;
    require(now, now - since <= patience_ms_, "a worker waits for a lost server");
  }
  // Time has passed. `is_running`: whether the job neither starts nor ends.
  void look(Ms now, bool is_running) {
    for (const auto& [rank, server] : servers_) {
      if (!is_running || !server.gone_since || server.is_vacant) continue;
      require(now, now - *server.gone_since <= detection_ms_, "a server that is gone still counts as live");
    }
  }

 private:
  struct Server {
    uint64_t restores = 0;
    std::optional<uint64_t> version = {};  // to which it has gone back last
    std::optional<Ms> gone_since = {};
    bool is_vacant = false;  // whether it counts as lost
  };
  struct Slice {
    uint64_t version = 0;
    uint64_t open = 0;                          // gradients in its sum
    std::map<uint64_t, uint64_t> history = {};  // its value at each version but the first
  };
  void require(Ms now, bool holds, const char* what) {
    if (!holds && broken_.empty()) broken_ = fmt::format("{} ms: {}", now, what);
  }

  Ms detection_ms_, patience_ms_;
  std::vector<std::vector<uint32_t>> slices_of_;  // the slices of parameters, by server
  std::string broken_;
  std::map<uint32_t, Server> servers_;
  std::map<uint32_t, Slice> slices_;
  std::map<uint64_t, uint64_t> version_of_;  // to which the servers have gone back, by the number of the time
  std::map<uint64_t, Ms> waits_since_;       // by worker
};

}  // namespace dtrain::simulated
