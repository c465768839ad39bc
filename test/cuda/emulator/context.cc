#include "context.h"

#if defined(__x86_64__)

// dtrain_switch_stacks(void** left, void* entered): pushes the registers that the System V ABI says a function must
// preserve onto the current stack, stores the stack pointer in *left, and restores them from the entered stack. The
// floating-point control words are the same everywhere.
extern "C" void dtrain_switch_stacks(void** left, void* entered);
asm(R"(
  .text
  .type dtrain_switch_stacks, @function
dtrain_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size dtrain_switch_stacks, .-dtrain_switch_stacks
)");

namespace dtrain::cuda::emulator {

void Context::prepare(std::byte* stack, size_t bytes, void (*entry)()) {
  constexpr size_t kRegisters = 6;
  // A function starts with the stack pointer 8 bytes below a multiple of 16, because its return address was just
  // pushed. Here the return address is 0; it is never used.
  auto* top = reinterpret_cast<void**>((reinterpret_cast<uintptr_t>(stack) + bytes) / 16 * 16);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (size_t i = 0; i < kRegisters; i++) *--top = nullptr;
  stack_pointer_ = top;
}

void Context::switch_to(Context& other) {
  dtrain_switch_stacks(&stack_pointer_, other.stack_pointer_);
}

}  // namespace dtrain::cuda::emulator

#else

namespace dtrain::cuda::emulator {

void Context::prepare(std::byte* stack, size_t bytes, void (*entry)()) {
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack;
  context_.uc_stack.ss_size = bytes;
  context_.uc_link = nullptr;
  makecontext(&context_, entry, 0);
}

void Context::switch_to(Context& other) {
  swapcontext(&context_, &other.context_);
}

}  // namespace dtrain::cuda::emulator

#endif
