#include "job/flags/gpu_list.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/printable.h"
#include "job/flags/value.h"

namespace dtrain::job {
namespace {

constexpr std::string_view kAll = "all";

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Reads digits only; nullopt for any other text and for a number that is too large for 64 bits.
std::optional<int64_t> digits_of(std::string_view text) {
  int64_t number = 0;
  if (!is_digits(text)) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

Result<> parse_part_of_all(std::string_view text, GpuList& value) {
  GpuList parsed = GpuList::all();
  if (text != kAll) {
    const std::string_view fraction = text.substr(kAll.size());
    const size_t slash = fraction.find('/');
    const bool has_form = fraction.starts_with(':') && slash != std::string_view::npos;
    const std::optional<int64_t> part = has_form ? digits_of(fraction.substr(1, slash - 1)) : std::nullopt;
    const std::optional<int64_t> parts = has_form ? digits_of(fraction.substr(slash + 1)) : std::nullopt;
    if (!part || !parts || *part < 1 || *part > *parts || *parts > kGpuMax + 1) {
      return fail(Code::kUsage, "'{}' is neither all nor all:I/K, the I-th of K parts of all GPUs, such as all:1/2",
                  printable(text));
    }
    parsed.part = *part;
    parsed.parts = *parts;
  }
  value = std::move(parsed);
  return {};
}

struct NumberSpan {
  int64_t first = 0, last = 0;
};

Result<NumberSpan> parse_span(std::string_view text) {
  const size_t dash = text.find('-');
  const std::string_view begin = text.substr(0, dash);
  const std::string_view end = dash == std::string_view::npos ? begin : text.substr(dash + 1);
  if (!is_digits(begin) || !is_digits(end)) {
    return fail(Code::kUsage, "'{}' is neither the number of a GPU nor a range such as 0-3", printable(text));
  }
  const std::optional<int64_t> first = digits_of(begin), last = digits_of(end);
  for (const auto& [number, digits] : {std::pair(first, begin), std::pair(last, end)}) {
    if (number && *number <= kGpuMax) continue;
    return fail(Code::kUsage, "{} is more than {}, the largest number of a GPU", printable(digits), kGpuMax);
  }
  if (*first > *last)
    return fail(Code::kUsage, "the range '{}' ends before it begins: give {}-{}", text, *last, *first);
  return NumberSpan{*first, *last};
}

}  // namespace

Result<> parse_value(std::string_view text, GpuList& value) {
  const std::vector<std::string_view> words = split_list(text);
  if (words.size() == 1 && words.front().starts_with(kAll)) return parse_part_of_all(words.front(), value);
  GpuList parsed;
  for (const std::string_view word : words) {
    if (word.starts_with(kAll)) {
      return fail(Code::kUsage, "'{}': {} cannot be combined with other GPUs: give only all, or only numbers",
                  printable(text), kAll);
    }
    DT_TRY(const NumberSpan span, parse_span(word));
    for (int64_t number = span.first; number <= span.last; number++) {
      if (std::ranges::find(parsed.numbers, number) != parsed.numbers.end()) {
        return fail(Code::kUsage, "'{}' names GPU {} twice", printable(text), number);
      }
      parsed.numbers.push_back(number);
    }
  }
  value = std::move(parsed);
  return {};
}

std::string format_value(const GpuList& value) {
  if (value.parts == 0) return format_value(value.numbers);
  return value.is_all() ? std::string(kAll) : fmt::format("{}:{}/{}", kAll, value.part, value.parts);
}

void add_gpus(const GpuList& more, GpuList& gpus) {
  if (more.is_all()) gpus = more;
  if (gpus.is_all()) return;
  for (const int64_t gpu : more.numbers) {
    if (std::ranges::find(gpus.numbers, gpu) == gpus.numbers.end()) gpus.numbers.push_back(gpu);
  }
}

GpuList part_of(const GpuList& gpus, int64_t index, int64_t parts) {
  if (gpus.is_all()) return {.numbers = {}, .part = index + 1, .parts = parts};
  const int64_t count = std::ssize(gpus.numbers);
  DT_CHECK(gpus.parts == 0 && count >= parts, "{} cannot be divided into {} parts", format_value(gpus), parts);
  const auto begin = gpus.numbers.begin();
  return {.numbers = {begin + count * index / parts, begin + count * (index + 1) / parts}};
}

Result<> set_numbers(GpuList& gpus, int64_t usable) {
  if (gpus.has_numbers()) return {};
  if (usable < gpus.parts) {
    return fail(Code::kUsage, "--gpus {}: this process can use {} GPU{}, which cannot be divided into {} parts{}",
                format_value(gpus), usable, usable == 1 ? "" : "s", gpus.parts,
                gpus.parts > 1 ? ": each worker of a host needs a GPU of its own" : "");
  }
  std::vector<int64_t> all(static_cast<size_t>(usable));
  std::iota(all.begin(), all.end(), 0);
  gpus.numbers = part_of({.numbers = std::move(all)}, gpus.part - 1, gpus.parts).numbers;
  return {};
}

Result<> check_one_gpu(const GpuList& gpus, const char* why) {
  if (gpus.numbers.size() <= 1) return {};
  const std::string found = gpus.parts == 0 ? "" : fmt::format(", and this process can use {}", gpus.numbers.size());
  return fail(Code::kUsage, "--gpus {}: {}{}; give one number, such as --gpus {}", format_value(gpus), why, found,
              gpus.numbers.front());
}

}  // namespace dtrain::job
