// How the ranks of a group find each other before it is there.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace dtrain::comm {

// Gives my bytes and gets everybody's, by rank, mine among them; ends in a bounded time. How: the caller's business.
// Between processes the scheduler carries them; threads of one process hand them over (Board). What it returns is
// checked, as all that peers say.
using Exchange = std::function<Result<std::vector<std::string>>(std::string mine)>;

// The processes whose devices make a group. Alone: the default.
struct Processes {
  uint32_t rank = 0;
  uint32_t size = 1;
  Exchange exchange = [](std::string mine) -> Result<std::vector<std::string>> { return std::vector{std::move(mine)}; };
};

// Where the threads of a process hand each other their bytes, once. Outlives its exchanges.
class Board {
 public:
  explicit Board(uint32_t ranks, std::chrono::seconds limit = std::chrono::seconds(60))
      : limit_(limit), given_(ranks) {}

  Exchange of(uint32_t rank) {
    return [this, rank](std::string mine) { return exchange(rank, std::move(mine)); };
  }
  // Code::kStartup: not all came within the limit, or it was called off.
  Result<std::vector<std::string>> exchange(uint32_t rank, std::string mine) {
    std::unique_lock lock(mutex_);
    given_[rank] = std::move(mine);
    came_++;
    changed_.notify_all();
    changed_.wait_for(lock, limit_, [this] { return came_ == given_.size() || off_; });
    if (off_) return tl::unexpected(*off_);
    if (came_ < given_.size()) {
      return fail(Code::kStartup, "{} of {} ranks came to the exchange", came_, given_.size());
    }
    return given_;
  }
  // One will not come: the others get `error`.
  void call_off(Error error) {
    const std::lock_guard lock(mutex_);
    if (!off_) off_ = std::move(error);
    changed_.notify_all();
  }

 private:
  const std::chrono::seconds limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> given_;  // by rank
  size_t came_ = 0;
  std::optional<Error> off_;
};

}  // namespace dtrain::comm
