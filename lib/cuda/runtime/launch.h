// The only way to launch dtrain's own kernels.
//
// launch_kernel can be replaced at link time. runtime/launch.cc runs the kernel on the device; another definition can
// record launches or run the kernel on the host (test/cuda/emulator does both). These need the name and the bytes in a
// Launch, which CUDA does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>

#include "cuda/runtime/stream.h"

namespace dtrain::cuda {

// Extents of a grid of blocks (x < 2^31, y and z <= 65535), or of a block of threads (at most 1024 in total).
struct Dim {
  uint32_t x = 1, y = 1, z = 1;
};

struct Launch {
  const char* name = "";  // name of the operation, not of the template
  Dim grid, block;
  int64_t bytes = 0;  // device memory read and written, each byte counted once, as documented for the operation
  cudaStream_t stream = nullptr;
};

// A kernel and its arguments, type-erased. bind(function, arguments) returns a call of `function` with a copy of the
// arguments, for programs in which a kernel is an ordinary host function. It is not used on a device.
struct Kernel {
  const void* function;
  void** arguments;
  std::function<void()> (*bind)(const void* function, void** arguments);
};

// Queues the kernel. DeviceError if that fails. A failure while the kernel runs is reported by a later call.
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
