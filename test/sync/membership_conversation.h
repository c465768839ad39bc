// A conversation with the machine of the membership, for tests of single events.
#pragma once

#include <utility>
#include <vector>

#include "support/catch.h"
#include "sync/membership.h"

namespace dtrain::sync::membership {

// A machine and its answers, for conversations written by hand.
class Conversation {
 public:
  explicit Conversation(Settings settings) : machine(std::move(settings)) {}

  std::vector<Effect> say(Millis now_ms, const Event& event) {
    std::vector<Effect> out;
    machine.on(now_ms, event, out);
    return out;
  }
  // All processes join in the given order, and the job starts at time 0.
  void start(uint32_t workers, uint32_t servers, const std::vector<uint32_t>& stop_set_of = {}) {
    for (uint32_t i = 0; i < workers; i++) (void)say(0, Join{.incarnation = worker(i), .want_rank = i, .job_text = ""});
    for (uint32_t i = 0; i < servers; i++) {
      (void)say(0, Join{.incarnation = server(i), .role = Role::kServer, .want_rank = i, .job_text = ""});
    }
    (void)say(0, Ready{stop_set_of});
    for (uint32_t i = 0; i < workers; i++) (void)say(0, StreamOpened{worker(i)});
    for (uint32_t i = 0; i < servers; i++) (void)say(0, StreamOpened{server(i)});
    REQUIRE(machine.started());
  }
  static Incarnation worker(uint32_t rank) { return 100 + rank; }
  static Incarnation server(uint32_t rank) { return 200 + rank; }

  Machine machine;
};

template <class T>
std::vector<T> all(const std::vector<Effect>& effects) {
  std::vector<T> found;
  for (const Effect& effect : effects) {
    if (const T* one = std::get_if<T>(&effect)) found.push_back(*one);
  }
  return found;
}

template <class T>
std::vector<T> notices(const std::vector<Effect>& effects) {
  std::vector<T> found;
  for (const Tell& tell : all<Tell>(effects)) {
    if (const T* one = std::get_if<T>(&tell.notice)) found.push_back(*one);
  }
  return found;
}

inline Settings settings(uint32_t workers, uint32_t servers) {
  return {.workers = workers, .servers = servers, .job_text = ""};
}

// A job that continues without lost workers, and whose training has begun.
inline Conversation training(Settings its) {
  Conversation job(its);
  job.start(its.workers, its.servers);
  for (uint32_t rank = 0; rank < its.workers; rank++) {
    (void)job.say(0, BarrierEnter{.incarnation = Conversation::worker(rank),
                                  .name = "the initial weights",
                                  .content = "0 numbers",
                                  .begins_training = true});
  }
  return job;
}
inline Conversation shrinking(Settings its) {
  its.on_worker_loss = OnWorkerLoss::kShrink;
  return training(std::move(its));
}
inline Conversation shrinking(uint32_t workers, uint32_t servers) {
  return shrinking(settings(workers, servers));
}

inline std::vector<bool> live_seats(const View& view) {
  std::vector<bool> live;
  for (const Seat& seat : view.workers) live.push_back(seat.is_live());
  return live;
}

inline BarrierEnter meeting(uint32_t rank, uint64_t seq) {
  return {.incarnation = Conversation::worker(rank), .name = "the end", .seq = seq, .content = "1 numbers"};
}

}  // namespace dtrain::sync::membership
