// The end of a stream on the called side, as a pure state machine (server_stream.h carries out its decisions). gRPC
// requires that Finish is called once, when no write is in progress. The context, which cut() needs, lives only until
// then.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace dtrain::rpc {

class StreamPhase {
 public:
  enum class Phase : uint8_t {
    kOpen,
    kClosing,        // close() or cut() was called, and a write may be in progress
    kCutting,        // cut() is using the context, and a write may be in progress
    kDrainedInACut,  // cut() is using the context, and no write is in progress
    kFinished,
  };
  enum class Event : uint8_t {
    kClose,
    kDrained,  // no write is in progress; comes once, after kClose or kCut
    kCut,
    kCutDone,  // cut() is over; comes only after a kCut whose action was not kNothing
  };
  enum class Action : uint8_t {
    kNothing,
    kCloseQueue,  // close the queue; after kCut also cancel the call, then report kCutDone
    kCancel,      // cancel the call, then report kCutDone
    kFinish,
  };

  Action on(Event event) {
    const Step step = kTable[static_cast<size_t>(phase_)][static_cast<size_t>(event)];
    phase_ = step.next;
    return step.action;
  }
  [[nodiscard]] bool is_open() const { return phase_ == Phase::kOpen; }

 private:
  struct Step {
    Phase next;
    Action action;
  };
  using Row = std::array<Step, 4>;
  static constexpr Phase O = Phase::kOpen, C = Phase::kClosing, T = Phase::kCutting, D = Phase::kDrainedInACut,
                         F = Phase::kFinished;
  static constexpr Action no = Action::kNothing, queue = Action::kCloseQueue, cancel = Action::kCancel,
                          finish = Action::kFinish;
  // clang-format off
  static constexpr std::array<Row, 5> kTable = {{
      //                    kClose       kDrained     kCut         kCutDone
      /* kOpen */          {{{C, queue}, {O, no},     {T, queue},  {O, no}}},
      /* kClosing */       {{{C, no},    {F, finish}, {T, cancel}, {C, no}}},
      /* kCutting */       {{{T, no},    {D, no},     {T, no},     {C, no}}},
      /* kDrainedInACut */ {{{D, no},    {D, no},     {D, no},     {F, finish}}},
      /* kFinished */      {{{F, no},    {F, no},     {F, no},     {F, no}}},
  }};
  // clang-format on

  Phase phase_ = Phase::kOpen;
};

}  // namespace dtrain::rpc
