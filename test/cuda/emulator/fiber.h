// Functions that can yield in the middle: the threads of an emulated block.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>

#include "context.h"

namespace dtrain::cuda::emulator {

// Runs functions one after another, each until it ends, on a stack of its own. Used by one host thread.
class Fiber {
 public:
  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Starts `work`; the previous one must have ended. Returns when it yields or ends. Exceptions of `work` are rethrown
  // here.
  void start(const std::function<void()>& work);
  // Continues where it yielded; otherwise like start.
  void resume();
  // Called by the running work: returns to the caller of start or resume.
  void give_way();
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  [[noreturn]] static void enter();
  void run();
  void switch_in();

  // Sanitizers need large frames. Pages that are not touched cost nothing.
  static constexpr size_t kStackBytes = size_t{256} << 10;
  std::unique_ptr<std::byte[]> stack_;
  Context inside_, outside_;
  const std::function<void()>* work_ = nullptr;
  bool ended_ = true;
  std::exception_ptr failure_;
  // AddressSanitizer's state for the fiber's stack and for the caller's stack.
  void *inside_notes_ = nullptr, *outside_notes_ = nullptr;
  const void* caller_stack_ = nullptr;
  size_t caller_bytes_ = 0;
};

}  // namespace dtrain::cuda::emulator
