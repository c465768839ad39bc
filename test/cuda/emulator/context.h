// The saved state of a function that runs on a stack of its own. ucontext would also work, but it saves and restores
// the signal mask with two system calls at each switch, and an emulated block switches thousands of times.
#pragma once

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace dtrain::cuda::emulator {

class Context {
 public:
  // The next switch to this context calls `entry` on the stack [stack, stack + bytes). `entry` must never return.
  void prepare(std::byte* stack, size_t bytes, void (*entry)());
  // Saves the caller's state in `this` and continues at the state of `other`. Returns when something switches back.
  void switch_to(Context& other);

 private:
#if defined(__x86_64__)
  void* stack_pointer_ = nullptr;
#else
  ucontext_t context_ = {};
#endif
};

}  // namespace dtrain::cuda::emulator
