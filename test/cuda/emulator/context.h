// Where a function on a stack of its own stands. ucontext would do, but saves and restores the signals' mask by two
// calls of the kernel at each switch, and an emulated block switches by the thousand.
#pragma once

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace dtrain::cuda::emulator {

class Context {
 public:
  // The next switch to this context calls `entry` on the stack [stack, stack + bytes). It must never return.
  void prepare(std::byte* stack, size_t bytes, void (*entry)());
  // Notes in `this` where the caller stands and goes on where `other` stands; returns when somebody switches back.
  void switch_to(Context& other);

 private:
#if defined(__x86_64__)
  void* stack_pointer_ = nullptr;
#else
  ucontext_t context_ = {};
#endif
};

}  // namespace dtrain::cuda::emulator
