// The GPUs of a process: the value of --gpus, and of gpus= in a host file.
//
// Its text is a list of numbers and ranges, such as "0,2-5"; or "all", all GPUs that the process can use; or "all:I/K",
// the I-th of K parts of them. Launchers give the parts to the workers of a host, because only a process on that host
// knows how many GPUs there are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::job {

inline constexpr int64_t kGpuMax = 1023;  // the largest number of a GPU

struct GpuList {
  std::vector<int64_t> numbers = {};  // distinct, in the order given. Empty for "all" until set_numbers
  int64_t part = 0, parts = 0;        // "all:PART/PARTS", from 1. "all" has one part; a list of numbers has none (0)

  [[nodiscard]] static GpuList all() { return {.numbers = {}, .part = 1, .parts = 1}; }
  // True if the process uses no GPUs.
  [[nodiscard]] bool empty() const { return numbers.empty() && parts == 0; }
  [[nodiscard]] bool is_all() const { return parts == 1; }
  // False for "all" and "all:I/K" until set_numbers.
  [[nodiscard]] bool has_numbers() const { return parts == 0 || !numbers.empty(); }
  bool operator==(const GpuList&) const = default;
};

// Code::kUsage for a text of another form, a number above kGpuMax, or a GPU that is named twice. An empty text names no
// GPU.
Result<> parse_value(std::string_view text, GpuList& value);
std::string format_value(const GpuList& value);

// Adds the GPUs that the list does not have yet. Neither list may be a part of "all".
void add_gpus(const GpuList& more, GpuList& gpus);

// One of several parts of the list, as equal as possible. `index`: from 0 to parts - 1. A list of numbers must have at
// least as many numbers as parts. The list must not be a part of "all" itself.
GpuList part_of(const GpuList& gpus, int64_t index, int64_t parts);

// Sets the numbers of "all" in a process that can use the GPUs 0 to usable - 1; changes no other list. Code::kUsage if
// there are fewer GPUs than parts.
Result<> set_numbers(GpuList& gpus, int64_t usable);

// Code::kUsage if there are several GPUs. `why`: what needs a single GPU, as a sentence. The list must have numbers.
Result<> check_one_gpu(const GpuList& gpus, const char* why);

}  // namespace dtrain::job
