// Preloaded into a program, counts the threads that it starts. At the end of each of its processes, the number is
// appended as a line to the file that the environment variable DTRAIN_TEST_THREADS names.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace {

std::atomic<int> started = 0;

struct AtEnd {
  ~AtEnd() {
    const char* path = std::getenv("DTRAIN_TEST_THREADS");
    std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "a");
    if (file == nullptr) return;
    std::fprintf(file, "%d\n", started.load());
    std::fclose(file);
  }
} at_end;

}  // namespace

// Hides the function of the C library, and calls it.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) noexcept {
  static const auto next = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  started++;
  return next(thread, attributes, run, argument);
}
