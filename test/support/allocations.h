// Counts the allocations of a program while a test asks for it. It replaces every `new` of the program, so exactly one
// file of a program includes it.
#pragma once

#include <cstdlib>
#include <new>

#include "support/allocation_count.h"

// Not inlined: otherwise g++ 12 warns about the free() below.
__attribute__((noinline)) void* operator new(size_t size) {
  if (dtrain::test::counts_allocations) dtrain::test::allocations++;
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// A sanitizer's own version would not match the operators delete below.
__attribute__((noinline)) void* operator new(size_t size, const std::nothrow_t&) noexcept {
  if (dtrain::test::counts_allocations) dtrain::test::allocations++;
  return std::malloc(size == 0 ? 1 : size);
}
__attribute__((noinline)) void operator delete(void* memory) noexcept {
  std::free(memory);
}
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
