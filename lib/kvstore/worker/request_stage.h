// The progress of a slice's request, as a pure state machine (slice_requests.h carries out its decisions).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace dtrain::kvstore {

class RequestStage {
 public:
  enum class Stage : uint8_t {
    kDone,          // there is no request, or it has been answered
    kQueued,        // the request waits for the sending thread
    kSending,       // one thread is sending it, so that messages about a slice keep their order
    kSendingAgain,  // like kSending; what was sent so far is lost, so it will be sent again
    kAnswered,      // the answer arrived while the request was being sent
    kSent,          // the request was sent and waits for its answer
  };
  enum class Event : uint8_t {
    kAsk,     // a new request, for the sending thread
    kAskNow,  // a new request, which the calling thread sends
    kTake,    // the sending thread has found the slice in its queue
    kSent,    // all messages of the request have been sent
    kRepeat,  // the connection was opened again, or a message was damaged
    kAnswer,
  };
  enum class Action : uint8_t {
    kNothing,
    kEnqueue,
    kSend,
    kClose,     // close the request: its answer counts
    kKeep,      // keep the answer until kClose
    kForbidden  // the caller must not report this event now
  };

  Action on(Event event) {
    const Step step = kTable[static_cast<size_t>(stage_)][static_cast<size_t>(event)];
    stage_ = step.next;
    return step.action;
  }
  [[nodiscard]] Stage stage() const { return stage_; }
  [[nodiscard]] bool is_open() const { return stage_ != Stage::kDone; }
  // Whether an answer that arrives next would be the first one.
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
  // Indexed by stage, then event. A slice that has been answered may still be in the queue; taking it has no effect.
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
