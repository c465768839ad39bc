// A training step does not allocate. This program's own malloc counts the callers from step 10 to step 20.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>

#include "base/random.h"
#include "exec/executor.h"
#include "graph/models/models.h"
#include "optim/initializer.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::exec;

namespace {

// Plain globals, because they are written from inside malloc.
std::atomic<bool> counting{false};
std::atomic<size_t> by_own_code{0}, by_libraries{0}, above_64_kib{0};

// Libraries whose calls may allocate. Every other caller is our code, or the C++ library on its behalf.
constexpr const char* kLibraries[] = {"libdnnl", "libopenblas", "libgomp", "ld-linux", "libc.so"};

bool from_library(void* caller) {
  Dl_info info{};
  if (dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return false;
  for (const char* library : kLibraries) {
    if (std::strstr(info.dli_fname, library) != nullptr) return true;
  }
  return false;
}

void count(size_t bytes, void* caller) {
  if (!counting.load(std::memory_order_relaxed)) return;
  if (bytes > 64 * 1024) above_64_kib++;
  (from_library(caller) ? by_libraries : by_own_code)++;
}

}  // namespace

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* memory);

void* malloc(size_t bytes) {
  count(bytes, __builtin_return_address(0));
  return __libc_malloc(bytes);
}
void* calloc(size_t n, size_t bytes) {
  count(n * bytes, __builtin_return_address(0));
  return __libc_calloc(n, bytes);
}
void* realloc(void* old, size_t bytes) {
  count(bytes, __builtin_return_address(0));
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  count(bytes, __builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** result, size_t alignment, size_t bytes) {
  count(bytes, __builtin_return_address(0));
  *result = __libc_memalign(alignment, bytes);
  return *result == nullptr ? ENOMEM : 0;
}
}

// Replaced as well, so that the caller is seen and not the C++ library.
void* operator new(size_t bytes) {
  count(bytes, __builtin_return_address(0));
  void* result = __libc_malloc(bytes);
  if (result == nullptr) throw std::bad_alloc();
  return result;
}
void* operator new[](size_t bytes) {
  count(bytes, __builtin_return_address(0));
  void* result = __libc_malloc(bytes);
  if (result == nullptr) throw std::bad_alloc();
  return result;
}
void operator delete(void* memory) noexcept {
  __libc_free(memory);
}
void operator delete[](void* memory) noexcept {
  __libc_free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  __libc_free(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  __libc_free(memory);
}

namespace {

size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  size_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

class Trainer {
 public:
  Trainer(const std::string& network, const Shape& image, int64_t batch) {
    const graph::Graph graph = graph::build_model({.network = network, .image = image}).value();
    executor_ =
        make_cpu_backend()
            ->compile(graph,
                      {.batch_size = batch, .inputs = {{.shape = image}}, .threads = 2, .bucket_begin = {0, 2, 5}})
            .value();
    const ParameterView& view = executor_->parameters();
    for (size_t i = 0; i < view.parameters.size(); i++) {
      REQUIRE(optim::initialize({}, view.parameters[i], 1, i));
    }
    RandomStream random(1, Use::kTest);
    data_.resize(static_cast<size_t>(batch * element_count(image)));
    for (float& x : data_) x = static_cast<float>(random.normal());
    for (int64_t i = 0; i < batch; i++) labels_.push_back(static_cast<float>(random.below(10)));
  }

  void steps(int count) {
    for (int i = 0; i < count; i++) {
      const bool ok =
          executor_->forward(Batch::of(data_, labels_), wait_).has_value() && executor_->backward(ready_).has_value();
      if (!ok) FAIL("a step failed");
      for (const ParameterSpan& parameter : executor_->parameters().parameters) {
        for (size_t k = 0; k < parameter.weight.size(); k++) parameter.weight[k] -= 1e-3f * parameter.gradient[k];
      }
    }
  }

 private:
  std::unique_ptr<Executor> executor_;
  std::vector<float> data_, labels_;
  WeightsWait wait_ = no_wait;
  GradientReady ready_ = no_wait;
};

void check_steps(const std::string& network, const Shape& image, int64_t batch) {
  INFO(network);
  Trainer trainer(network, image, batch);
  trainer.steps(10);
  by_own_code = by_libraries = above_64_kib = 0;
  const size_t before = resident_bytes();
  counting = true;
  trainer.steps(10);
  counting = false;
  const size_t after = resident_bytes();
  CHECK(by_own_code == 0);
  // Without AVX-512, oneDNN 2's products allocate half a MiB for each thread in each call.
  if (__builtin_cpu_supports("avx512f")) {
    CHECK(above_64_kib == 0);
    CHECK(after <= before + 64 * 1024);  // a page or two of a library's pools
  }
  WARN(network << ": " << by_libraries << " allocations in 10 steps inside oneDNN, OpenBLAS and OpenMP");
}

}  // namespace

TEST_CASE("the allocation counters notice allocations", "[exec][cpu]") {
  by_own_code = above_64_kib = 0;
  counting = true;
  auto v = std::make_unique<std::vector<char>>(100'000);
  counting = false;
  CHECK(by_own_code == 2);
  CHECK(above_64_kib == 1);
}

TEST_CASE("steps of lenet allocate nothing", "[exec][cpu]") {
  check_steps("lenet", {1, 28, 28}, 64);
}

TEST_CASE("steps of inception-bn-28-small allocate nothing", "[exec][cpu]") {
  check_steps("inception-bn-28-small", {3, 28, 28}, 4);
}
