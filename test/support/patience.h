// Waiting in tests: for something that must come, but nobody knows how soon on a busy host.
#pragma once

#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>

namespace dtrain::test {

// How long a test waits before it fails. No test asserts that something takes less, so only a failing test waits so
// long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr std::chrono::seconds kPatience{240};
#else
inline constexpr std::chrono::seconds kPatience{60};
#endif

// Returns once `holds()` is true. Throws when kPatience is over, so that a test fails instead of hanging.
template <class Holds>
void await(Holds&& holds) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error("what the test waits for did not come");
    std::this_thread::yield();
  }
}

// Waits for the future and returns its value. Throws when kPatience is over.
template <class T>
T within(std::future<T> future) {
  if (future.wait_for(kPatience) != std::future_status::ready) throw std::runtime_error("nothing came in time");
  return future.get();
}

}  // namespace dtrain::test
