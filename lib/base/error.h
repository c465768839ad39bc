// What goes wrong, in one vocabulary and two carriers.
//
// What the outside can cause (flags, files, records, peers, networks) is an expected outcome: a Result<T>. Each frame
// that passes an Error on adds what it knows, with DT_TRY's text. What only a bug or a broken device can cause is
// thrown: DT_CHECK throws CheckFailed. Three seams catch exceptions and turn them into an Error: a thread's entry, an
// RPC reaction, main.
#pragma once

#include <fmt/format.h>

#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace dtrain {

// A Code exists because some caller acts on it: job/exit_code.h turns it into the process's exit code, retries look
// for kUnavailable, optional files for kNotFound.
enum class Code {
  kInternal,       // a bug, a loss that is not finite
  kUsage,          // flags and files of the user; a job that the flags do not match
  kStartup,        // could not come together: absent peer, port in use, interface not found
  kSchedulerLost,  // the scheduler went silent
  kPeerLost,       // a worker or a server went silent
  kDenied,         // token, build or protocol
  kData,           // record, label, checkpoint
  kNotFound,       // a file that is not there (data, where the user needs it)
  kDevice,         // no device, device out of memory
  kPreempted,      // asked to stop by a signal; a checkpoint was written where there was something to write
  kUnavailable,    // the peer did not answer this time: may be tried again
};

std::string_view code_name(Code code);  // "not found", as printed

struct Error {
  Code code = Code::kInternal;
  std::string message;               // what, where and what to do: one line
  std::vector<std::string> context;  // innermost first: "opening record file 'train.rec'"

  // Adds a frame: what the caller was doing.
  [[nodiscard]] Error with(std::string what) && {
    context.push_back(std::move(what));
    return std::move(*this);
  }
  // "error [not found] MESSAGE\n  while CONTEXT\n  while CONTEXT", printable (base/printable.h).
  [[nodiscard]] std::string text() const;
  // The same in one line, as a log has it: "error [not found] MESSAGE (while CONTEXT, while CONTEXT)".
  [[nodiscard]] std::string line() const;
};

template <class T = void>
using Result = tl::expected<T, Error>;

// fail(Code::kData, "{}: the index lists no records", path): to be returned from a function with a Result.
template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...), {}});
}

// A bug in dtrain, or a device that broke.
class CheckFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] void throw_check_failed(const char* file, int line, const char* condition, const std::string& message);

// "not enough memory for <purpose>", and what needs less. Code::kDevice.
[[nodiscard]] Error not_enough_memory(std::string_view purpose);

// Runs `work` and turns what it throws into an Error: for the seams named above and nobody else. std::bad_alloc becomes
// not_enough_memory(purpose), everything else an Error of Code::kInternal.
template <class Work>
Result<> catching(Work&& work, std::string_view purpose = {}) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return tl::unexpected<Error>(not_enough_memory(purpose));
  } catch (const std::exception& e) {
    return fail(Code::kInternal, "{}", e.what());
  }
}

namespace detail {
inline Error add_context(Error&& error) {
  return std::move(error);
}
template <class... Args>
Error add_context(Error&& error, fmt::format_string<Args...> format, Args&&... args) {
  return std::move(error).with(fmt::format(format, std::forward<Args>(args)...));
}
}  // namespace detail

}  // namespace dtrain

#define DT_CONCAT_(a, b) a##b
#define DT_CONCAT(a, b) DT_CONCAT_(a, b)

// DT_TRY(Index index, read_index(path), "opening record file '{}'", path): declares `index`, or returns the Error with
// the text added. The text may be left out.
#define DT_TRY(declaration, expression, ...) \
  DT_TRY_(DT_CONCAT(dt_result_, __LINE__), declaration, expression, __VA_ARGS__)
#define DT_TRY_(result, declaration, expression, ...)                                         \
  auto result = (expression);                                                                 \
  if (!result) {                                                                              \
    return tl::unexpected<::dtrain::Error>(                                                   \
        ::dtrain::detail::add_context(std::move(result.error()) __VA_OPT__(, ) __VA_ARGS__)); \
  }                                                                                           \
  declaration = std::move(*result)

// DT_TRY_VOID(expression, ...): the same for a Result<> or a value that nobody needs.
#define DT_TRY_VOID(expression, ...)                                                               \
  do {                                                                                             \
    auto dt_result = (expression);                                                                 \
    if (!dt_result) {                                                                              \
      return tl::unexpected<::dtrain::Error>(                                                      \
          ::dtrain::detail::add_context(std::move(dt_result.error()) __VA_OPT__(, ) __VA_ARGS__)); \
    }                                                                                              \
  } while (false)

// DT_CHECK(n > 0, "n is {}", n): what cannot be false unless dtrain has a bug. Never for what a peer or a file said.
#define DT_CHECK(condition, ...)                                                                \
  do {                                                                                          \
    if (!(condition)) [[unlikely]] {                                                            \
      ::dtrain::throw_check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
    }                                                                                           \
  } while (false)
