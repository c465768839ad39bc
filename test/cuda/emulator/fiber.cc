#include "fiber.h"

#include <cstdlib>
#include <utility>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace dtrain::cuda::emulator {

namespace {

// The fiber to start; a new stack has no arguments.
thread_local Fiber* starting = nullptr;

// AddressSanitizer must be told which stack is in use.
#ifdef __SANITIZE_ADDRESS__
void leave_stack(void** notes, const void* next, size_t bytes) {
  __sanitizer_start_switch_fiber(notes, next, bytes);
}
void enter_stack(void* notes, const void** previous, size_t* bytes) {
  __sanitizer_finish_switch_fiber(notes, previous, bytes);
}
#else
void leave_stack(void**, const void*, size_t) {}
void enter_stack(void*, const void**, size_t*) {}
#endif

}  // namespace

void Fiber::start(const std::function<void()>& work) {
  if (stack_ == nullptr) stack_.reset(new std::byte[kStackBytes]);  // not cleared, because it is large
  work_ = &work;
  ended_ = false;
  inside_.prepare(stack_.get(), kStackBytes, &Fiber::enter);
  starting = this;
  inside_notes_ = nullptr;
  switch_in();
}

void Fiber::resume() {
  switch_in();
}

void Fiber::switch_in() {
  leave_stack(&outside_notes_, stack_.get(), kStackBytes);
  outside_.switch_to(inside_);
  enter_stack(outside_notes_, nullptr, nullptr);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Fiber::give_way() {
  // A fiber that has ended leaves nothing on its stack.
  leave_stack(ended_ ? nullptr : &inside_notes_, caller_stack_, caller_bytes_);
  inside_.switch_to(outside_);
  enter_stack(inside_notes_, &caller_stack_, &caller_bytes_);
}

void Fiber::enter() {
  starting->run();
  std::abort();  // an ended fiber is not resumed
}

void Fiber::run() {
  enter_stack(inside_notes_, &caller_stack_, &caller_bytes_);
  try {
    (*work_)();
  } catch (const std::exception&) {
    failure_ = std::current_exception();
  }
  ended_ = true;
  give_way();
}

}  // namespace dtrain::cuda::emulator
