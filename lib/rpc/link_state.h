// The connection of a worker to one server, as a pure state machine in the time of its caller (data_client.cc does what
// it says). A connection is several streams that stand and fall together: if one ends, all do, so that what was not
// answered is sent again as a whole. When the last one has ended, all are opened again after a delay.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace dtrain::rpc {

struct LinkLimits {
  size_t streams = 1;
  std::chrono::milliseconds retry_first{0}, retry_last{0};  // delays before streams are opened again
  std::chrono::milliseconds reopen_limit{0};                // a link that stood and is lost for so long is given up
};

class LinkState {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Phase : uint8_t {
    kIdle,     // there are no streams; others are opened at a time
    kOpening,  // not all streams have been accepted
    kOpen,
    kBreaking,  // some streams have ended, or were told to; the others will
    kClosed,    // for good; streams may still end
  };
  enum class Accepted : uint8_t { kNotAll, kOpened, kReopened };

  explicit LinkState(const LinkLimits& limits) : limits_(limits), retry_(limits.retry_first) {}

  // Opens all streams, if it is time to. False: it is not.
  bool open(Time now);
  // A stream was accepted.
  Accepted accept();
  // What the server sends cannot be understood: it is as good as none, even if it has sent messages too.
  void distrust() { is_trusted_ = false; }
  // All streams are told to end.
  void break_off();
  // A stream has ended. `has_answered`: the server has sent a message on any of the present ones. If it was the last
  // one: the delay before the next attempt, which doubles until the server has answered.
  std::optional<std::chrono::milliseconds> end(Time now, bool has_answered);
  void close() { phase_ = Phase::kClosed; }

  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] bool has_been_open() const { return has_been_open_; }
  // The earliest time at which open() or is_overdue() can return something else.
  [[nodiscard]] Time due() const;
  // Whether the link is lost for longer than the limit.
  [[nodiscard]] bool is_overdue(Time now) const;

 private:
  const LinkLimits limits_;
  Phase phase_ = Phase::kIdle;
  size_t alive_ = 0;  // streams that have not ended
  size_t accepted_ = 0;
  bool has_been_open_ = false;
  bool is_trusted_ = true;
  std::chrono::milliseconds retry_;
  Time retry_at_ = {};
  std::optional<Time> lost_at_ = {};  // since when it does not stand, having stood before
};

}  // namespace dtrain::rpc
