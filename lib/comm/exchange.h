// How the ranks of a group find each other before the group exists.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"

namespace dtrain::comm {

// Takes this rank's bytes and returns the bytes of all ranks, indexed by rank, including its own. Returns within a
// bounded time. The caller decides how the bytes travel: between processes the scheduler relays them; between threads
// of one process a Board does. The result is validated like all data from peers.
using Exchange = std::function<Result<std::vector<std::string>>(std::string mine)>;

// Takes bytes for each rank, indexed by rank, and returns those that each rank has passed for this one. What is passed
// for this rank itself is returned too. Otherwise like Exchange.
using PairExchange = std::function<Result<std::vector<std::string>>(std::vector<std::string> for_each)>;

// The processes whose devices form a group. By default, this process alone.
struct Processes {
  uint32_t rank = 0;
  uint32_t size = 1;
  Exchange exchange = [](std::string mine) -> Result<std::vector<std::string>> { return std::vector{std::move(mine)}; };
};

// Lets the threads of a process exchange their bytes, once. Must outlive its exchanges.
class Board {
 public:
  explicit Board(uint32_t ranks, std::chrono::seconds limit = std::chrono::seconds(60))
      : limit_(limit), given_(ranks) {}

  Exchange of(uint32_t rank) {
    return [this, rank](const std::string& mine) { return exchange(rank, mine); };
  }
  PairExchange of_pairs(uint32_t rank) {
    return [this, rank](std::vector<std::string> for_each) { return exchange(rank, std::move(for_each)); };
  }
  // Code::kStartup if not all ranks arrived within the limit.
  Result<std::vector<std::string>> exchange(uint32_t rank, const std::string& mine) {
    return exchange(rank, std::vector<std::string>(ranks(), mine));
  }
  Result<std::vector<std::string>> exchange(uint32_t rank, std::vector<std::string> for_each) DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    given_[rank] = std::move(for_each);
    came_++;
    changed_.notify_all();
    changed_.wait_for(mutex_, limit_, [this]() DT_REQUIRES(mutex_) { return came_ == given_.size(); });
    if (came_ < given_.size()) {
      return fail(Code::kStartup, "only {} of {} ranks took part in the exchange", came_, given_.size());
    }
    std::vector<std::string> for_this;
    for (const std::vector<std::string>& of_rank : given_) for_this.push_back(of_rank.at(rank));
    return for_this;
  }

 private:
  [[nodiscard]] size_t ranks() DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return given_.size();
  }

  const std::chrono::seconds limit_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<std::vector<std::string>> given_ DT_GUARDED_BY(mutex_);  // what each rank has passed, by rank
  size_t came_ DT_GUARDED_BY(mutex_) = 0;
};

}  // namespace dtrain::comm
