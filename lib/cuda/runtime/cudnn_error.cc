#include "cuda/runtime/cudnn_error.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace dtrain::cuda {

namespace {

constexpr size_t kReasonBytes = 2048;

}  // namespace

std::string cudnn_reason(cudnnStatus_t status) {
  std::array<char, kReasonBytes> reason{};
  cudnnGetLastErrorString(reason.data(), reason.size());
  std::string text(reason.data());
  std::replace(text.begin(), text.end(), '\n', ' ');  // an Error's message is one line
  while (!text.empty() && text.back() == ' ') text.pop_back();
  const std::string_view name = cudnnGetErrorString(status);
  return text.empty() ? std::string(name) : fmt::format("{}: {}", name, text);
}

void throw_cudnn_error(const char* file, int line, const char* call, cudnnStatus_t status) {
  throw DeviceError(fmt::format("{}:{}: {}: {}", file, line, call, cudnn_reason(status)));
}

}  // namespace dtrain::cuda
