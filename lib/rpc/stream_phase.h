// How the called end of a stream ends, as a pure state machine (server_stream.h does what it says). gRPC wants Finish
// to be called once, when nothing is written any more, and the context, by which a stream is cut, lives only until
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
    kClosing,        // a write may be on its way
    kCutting,        // cut() uses the context
    kDrainedInACut,  // likewise, and nothing is written any more
    kFinished,
  };
  enum class Event : uint8_t {
    kClose,
    kDrained,  // nothing is written any more; comes once, after kClose or kCut
    kCut,
    kCutDone,  // after a kCut that was not answered with kNothing
  };
  enum class Action : uint8_t {
    kNothing,
    kCloseQueue,  // kCut: and cancel the call, then kCutDone
    kCancel,      // the call, then kCutDone
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
