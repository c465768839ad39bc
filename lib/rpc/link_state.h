// The connection of a worker to one server, as a pure state machine whose caller provides the time (data_client.cc
// carries out its decisions). A connection has several streams that live and end together: if one ends, all do, so that
// every unanswered request is sent again. When the last one has ended, all are opened again after a delay.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace dtrain::rpc {

struct LinkLimits {
  size_t streams = 1;
  std::chrono::milliseconds retry_first{0}, retry_last{0};  // delays before streams are opened again
};

class LinkState {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Phase : uint8_t {
    kIdle,     // there are no streams; new ones are opened after a delay
    kOpening,  // not all streams have been accepted yet
    kOpen,
    kBreaking,  // some streams have ended or were told to end; the others will end too
    kClosed,    // closed for good; streams may still be ending
  };
  enum class Accepted : uint8_t { kNotAll, kOpened, kReopened };

  explicit LinkState(const LinkLimits& limits) : limits_(limits), retry_(limits.retry_first) {}

  // Opens all streams and returns true if the next attempt is due. Otherwise returns false.
  bool open(Time now);
  // A stream was accepted.
  Accepted accept();
  // The server has sent something malformed. The link then counts as unanswered, even if the server has sent valid
  // messages too.
  void distrust() { is_trusted_ = false; }
  // All streams have been told to end.
  void break_off();
  // A stream has ended. `has_answered`: whether the server has sent a message on any of the current streams. If this
  // was the last stream, returns the delay before the next attempt, which doubles until the server has answered.
  std::optional<std::chrono::milliseconds> end(Time now, bool has_answered);
  void close() { phase_ = Phase::kClosed; }
  // Another server takes the place of the one that was lost. The streams to that one have been told to end.
  void move() {
    retry_ = limits_.retry_first;
    retry_at_ = {};
    lost_at_.reset();
  }

  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] bool has_been_open() const { return has_been_open_; }
  // The earliest time at which open() can return true, as far as is known.
  [[nodiscard]] Time due() const { return phase_ == Phase::kIdle ? retry_at_ : Time::max(); }
  // When the link was lost; nullopt if it is open, was never open, or is closed.
  [[nodiscard]] std::optional<Time> lost_at() const { return phase_ == Phase::kClosed ? std::nullopt : lost_at_; }

 private:
  const LinkLimits limits_;
  Phase phase_ = Phase::kIdle;
  size_t alive_ = 0;  // number of streams that have not ended
  size_t accepted_ = 0;
  bool has_been_open_ = false;
  bool is_trusted_ = true;
  std::chrono::milliseconds retry_;
  Time retry_at_ = {};
  std::optional<Time> lost_at_ = {};
};

}  // namespace dtrain::rpc
