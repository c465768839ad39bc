// Errors: returned or thrown, depending on their cause.
//
// Failures that come from outside the program (flags, files, records, peers, networks) are expected outcomes and are
// returned as Result<T>. Each frame that passes an Error on adds context, with DT_TRY's text. Failures that only a bug
// or a broken device can cause are thrown: DT_CHECK throws CheckFailed, calls of a device ThrownError. Exceptions are
// caught and turned into an Error in three places only: a thread's entry function, an RPC handler, and main.
#pragma once

#include <fmt/core.h>

#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace dtrain {

// Each Code exists because some caller acts on it: job/process/exit_code.h maps it to the process's exit code, retries
// look for kUnavailable, and readers of optional files look for kNotFound.
enum class Code {
  kInternal,       // a bug, or a non-finite loss
  kUsage,          // a mistake in the user's flags or files, or flags that do not match the job's
  kStartup,        // the job could not start: a peer is absent, a port in use, an interface not found
  kSchedulerLost,  // the scheduler stopped responding
  kPeerLost,       // a worker or a server stopped responding
  kDenied,         // wrong token, build or protocol
  kData,           // bad record, label or checkpoint
  kNotFound,       // a file does not exist
  kDevice,         // no device, a disk fault that retries did not overcome, or out of memory
  kPreempted,      // stopped by a signal; a checkpoint was written if there was anything to save
  kUnavailable,    // the peer did not answer this time; the caller may try again
};

std::string_view code_name(Code code);  // The name of a code in printed errors, such as "not found".

struct Error {
  Code code = Code::kInternal;
  std::string message;               // one line: what is wrong, where, and what to do
  std::vector<std::string> context;  // innermost first: "opening record file 'train.rec'"

  // Adds a frame: what the caller was doing.
  [[nodiscard]] Error with(std::string what) && {
    context.push_back(std::move(what));
    return std::move(*this);
  }
  // "error [not found] MESSAGE\n  while CONTEXT\n  while CONTEXT", printable (base/printable.h).
  [[nodiscard]] std::string text() const;
  // The text of text(), but on one line, for logs: "error [not found] MESSAGE (while CONTEXT, while CONTEXT)".
  [[nodiscard]] std::string line() const;
};

template <class T = void>
using Result = tl::expected<T, Error>;

// Nearly every file includes this header and formats errors, so the templates below only check the format string and
// pack the arguments; the formatting is in functions that are compiled once. Files that need more of fmt than
// <fmt/core.h> include it themselves.
namespace detail {
tl::unexpected<Error> make_failure(Code code, fmt::string_view format, fmt::format_args args);
void add_context(Error& error, fmt::string_view format, fmt::format_args args);
[[noreturn]] void throw_check_failed(const char* file, int line, const char* condition, fmt::string_view format,
                                     fmt::format_args args);
}  // namespace detail

// Creates the value to return from a function that returns a Result: return fail(Code::kData, "{}: no records", path);
template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return detail::make_failure(code, format, fmt::make_format_args(args...));
}

// Thrown for a bug in dtrain.
class CheckFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An Error that is thrown: for a broken device, whose failure any call may report.
class ThrownError : public std::runtime_error {
 public:
  explicit ThrownError(Error error) : std::runtime_error(error.message), error_(std::move(error)) {}
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  Error error_;
};

// Returns the error "not enough memory for <purpose>" (Code::kDevice), with advice on how to need less.
[[nodiscard]] Error not_enough_memory(std::string_view purpose);

[[noreturn]] void throw_check_failed(const char* file, int line, const char* condition, const std::string& message);

// Runs `work` and turns exceptions into Errors. Use it only in a thread's entry function, in an RPC handler and in
// main. std::bad_alloc becomes not_enough_memory(purpose), ThrownError its Error, and every other std::exception an
// Error with Code::kInternal.
template <class Work>
Result<> catching(Work&& work, std::string_view purpose = {}) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return tl::unexpected<Error>(not_enough_memory(purpose));
  } catch (const ThrownError& e) {
    return tl::unexpected<Error>(e.error());
  } catch (const std::exception& e) {
    return fail(Code::kInternal, "{}", e.what());
  }
}

namespace detail {
inline tl::unexpected<Error> pass_on(Error& error) {
  return tl::unexpected<Error>(std::move(error));
}
template <class... Args>
tl::unexpected<Error> pass_on(Error& error, fmt::format_string<Args...> format, Args&&... args) {
  add_context(error, format, fmt::make_format_args(args...));
  return tl::unexpected<Error>(std::move(error));
}
template <class... Args>
[[noreturn]] void check_failed(const char* file, int line, const char* condition, fmt::format_string<Args...> format,
                               Args&&... args) {
  throw_check_failed(file, line, condition, format, fmt::make_format_args(args...));
}
}  // namespace detail

}  // namespace dtrain

#define DT_CONCAT_(a, b) a##b
#define DT_CONCAT(a, b) DT_CONCAT_(a, b)

// DT_TRY(Index index, read_index(path), "opening record file '{}'", path); declares `index`, or returns the Error from
// the enclosing function with the text added as context. The text may be omitted.
#define DT_TRY(declaration, expression, ...) \
  DT_TRY_(DT_CONCAT(dt_result_, __LINE__), declaration, expression, __VA_ARGS__)
#define DT_TRY_(result, declaration, expression, ...)                            \
  auto result = (expression);                                                    \
  if (!result) {                                                                 \
    return ::dtrain::detail::pass_on(result.error() __VA_OPT__(, ) __VA_ARGS__); \
  }                                                                              \
  declaration = std::move(*result)

// DT_TRY_VOID(expression, ...): like DT_TRY, for a Result<>, or for a Result whose value is not needed.
#define DT_TRY_VOID(expression, ...)                                                  \
  do {                                                                                \
    auto dt_result = (expression);                                                    \
    if (!dt_result) {                                                                 \
      return ::dtrain::detail::pass_on(dt_result.error() __VA_OPT__(, ) __VA_ARGS__); \
    }                                                                                 \
  } while (false)

// DT_CHECK(n > 0, "n is {}", n): throws CheckFailed if the condition is false. Use it for conditions that are false
// only if dtrain has a bug, never for data from a peer or a file.
#define DT_CHECK(condition, ...)                                                   \
  do {                                                                             \
    if (!(condition)) [[unlikely]] {                                               \
      ::dtrain::detail::check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__); \
    }                                                                              \
  } while (false)
