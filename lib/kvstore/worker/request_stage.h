// How far a slice's request has come, as a pure state machine (slice_requests.h carries out what it says).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace dtrain::kvstore {

class RequestStage {
 public:
  enum class Stage : uint8_t {
    kDone,          // there is no request, or it has been answered
    kQueued,        // for the thread that sends
    kSending,       // by one thread, so that messages about a slice keep their order
    kSendingAgain,  // likewise; what was sent so far is lost
    kAnswered,      // its answer came while it is still sent
    kSent,          // waits for its answer
  };
  enum class Event : uint8_t {
    kAsk,     // a new request, for the thread that sends
    kAskNow,  // a new request, which its caller sends
    kTake,    // the thread that sends has found the slice in its queue
    kSent,    // to its end
    kRepeat,  // the connection was opened again, or a message was damaged
    kAnswer,
  };
  enum class Action : uint8_t {
    kNothing,
    kEnqueue,
    kSend,
    kClose,     // the request: its answer counts
    kKeep,      // the answer, until kClose
    kForbidden  // a mistake of the caller
  };

  Action on(Event event) {
    const Step step = kTable[static_cast<size_t>(stage_)][static_cast<size_t>(event)];
    stage_ = step.next;
    return step.action;
  }
  [[nodiscard]] Stage stage() const { return stage_; }
  [[nodiscard]] bool is_open() const { return stage_ != Stage::kDone; }
  // Whether an answer would be the first one.
  [[nodiscard]] bool waits() const { return is_open() && stage_ != Stage::kAnswered; }

 private:
  struct Step {
    Stage next;
    Action action;
  };
  using Row = std::array<Step, 6>;
  static constexpr Stage D = Stage::kDone, Q = Stage::kQueued, N = Stage::kSending, A = Stage::kSendingAgain,
                         E = Stage::kAnswered, S = Stage::kSent;
  static constexpr Action no = Action::kNothing, enqueue = Action::kEnqueue, send = Action::kSend,
                          close = Action::kClose, keep = Action::kKeep, bad = Action::kForbidden;
  // By stage, then event. A slice that has been answered may still be in the queue: it is taken to no effect.
  // clang-format off
  static constexpr std::array<Row, 6> kTable = {{
      //               kAsk          kAskNow     kTake      kSent         kRepeat       kAnswer
      /* kDone */     {{{Q, enqueue}, {N, send}, {D, no},   {D, bad},     {D, no},      {D, no}}},
      /* kQueued */   {{{Q, bad},     {Q, bad},  {N, send}, {Q, bad},     {Q, no},      {D, close}}},
      /* kSending */  {{{N, bad},     {N, bad},  {N, no},   {S, no},      {A, no},      {E, keep}}},
      /* kSendingA.*/ {{{A, bad},     {A, bad},  {A, no},   {Q, enqueue}, {A, no},      {E, keep}}},
      /* kAnswered */ {{{E, bad},     {E, bad},  {E, no},   {D, close},   {E, no},      {E, no}}},
      /* kSent */     {{{S, bad},     {S, bad},  {S, no},   {S, bad},     {Q, enqueue}, {D, close}}},
  }};
  // clang-format on

  Stage stage_ = Stage::kDone;
};

}  // namespace dtrain::kvstore
