// Counts what a program asks memory for, where a test says so. It replaces every `new` of the program: one file of each
// includes it.
#pragma once

#include <cstdlib>
#include <new>

#include "support/allocation_count.h"

// Not inlined, or g++ 12 takes the free below for a mistake.
__attribute__((noinline)) void* operator new(size_t size) {
  if (dtrain::test::counts_allocations) dtrain::test::allocations++;
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// A sanitizer's own would not fit the deletes below.
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
