// Functions that can give way in the middle: the threads of an emulated block.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>

#include "context.h"

namespace dtrain::cuda::emulator {

// Runs one function after the other, each to its end, on a stack of its own. One thread of the host calls it.
class Fiber {
 public:
  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Starts `work` (the last one has ended); returns when it gives way, or ends. What it throws comes out here.
  void start(const std::function<void()>& work);
  // Goes on where it gave way; the same.
  void resume();
  // Of the running work: back to whoever started or resumed it.
  void give_way();
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  [[noreturn]] static void enter();
  void run();
  void switch_in();

  // Sanitizers' frames are large; untouched pages of it cost nothing.
  static constexpr size_t kStackBytes = size_t{256} << 10;
  std::unique_ptr<std::byte[]> stack_;
  Context inside_, outside_;
  const std::function<void()>* work_ = nullptr;
  bool ended_ = true;
  std::exception_ptr failure_;
  // AddressSanitizer's notes about the stack that is left: the fiber's, the caller's.
  void *inside_notes_ = nullptr, *outside_notes_ = nullptr;
  const void* caller_stack_ = nullptr;
  size_t caller_bytes_ = 0;
};

}  // namespace dtrain::cuda::emulator
