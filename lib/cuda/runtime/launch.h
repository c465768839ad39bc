// The one way in which kernels of our own are started.
//
// launch_kernel is a seam: runtime/launch.cc gives the kernel to the device; a program that links another definition
// can record launches instead, or run the kernel on the host (test/cuda/emulator does both). Hence the name and the
// bytes in a Launch, which CUDA does not need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>

#include "cuda/runtime/stream.h"

namespace dtrain::cuda {

// Extents of a grid of blocks (x < 2^31, y and z <= 65535), or of a block of threads (at most 1024 in all).
struct Dim {
  uint32_t x = 1, y = 1, z = 1;
};

struct Launch {
  const char* name = "";  // of the operation, not of the template
  Dim grid, block;
  int64_t bytes = 0;  // of device memory, read and written, as the operation's header says: each byte counted once
  cudaStream_t stream = nullptr;
};

// A kernel and its arguments, types forgotten. bind(function, arguments) is the plain call of `function` with a copy of
// the arguments, for code in which a kernel is a function of the host; on the device it is never used.
struct Kernel {
  const void* function;
  void** arguments;
  std::function<void()> (*bind)(const void* function, void** arguments);
};

// Queues the kernel. DeviceError if that fails; what fails while it runs is reported by a later call.
void launch_kernel(const Launch& launch, const Kernel& kernel);

namespace detail {
template <class... Parameters, size_t... I>
std::tuple<Parameters...> copy_of(void** arguments, std::index_sequence<I...>) {
  return {*static_cast<Parameters*>(arguments[I])...};
}
template <class... Parameters>
std::function<void()> bind_erased(const void* function, void** arguments) {
  const auto kernel = reinterpret_cast<void (*)(Parameters...)>(const_cast<void*>(function));
  return [kernel, values = copy_of<Parameters...>(arguments, std::index_sequence_for<Parameters...>{})] {
    std::apply(kernel, values);
  };
}
}  // namespace detail

template <class... Parameters, class... Arguments>
void launch(const Launch& what, void (*kernel)(Parameters...), Arguments&&... arguments) {
  std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
  std::apply(
      [&](Parameters&... value) {
        void* addresses[] = {&value...};
        launch_kernel(what, {reinterpret_cast<const void*>(kernel), addresses, detail::bind_erased<Parameters...>});
      },
      values);
}

}  // namespace dtrain::cuda
