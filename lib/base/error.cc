#include "base/error.h"

#include "base/printable.h"

namespace dtrain {

namespace {

// Limits the size of messages, because they quote external text, which may be as long as a file.
constexpr size_t kMessageBytesMax = 4000;

}  // namespace

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kInternal: return "internal";
    case Code::kUsage: return "usage";
    case Code::kStartup: return "start-up";
    case Code::kSchedulerLost: return "scheduler lost";
    case Code::kPeerLost: return "peer lost";
    case Code::kDenied: return "denied";
    case Code::kData: return "data";
    case Code::kNotFound: return "not found";
    case Code::kDevice: return "device";
    case Code::kPreempted: return "preempted";
    case Code::kUnavailable: return "unavailable";
  }
  return "unknown";
}

std::string Error::text() const {
  std::string text = fmt::format("error [{}] {}", code_name(code), printable(message, kMessageBytesMax));
  for (const std::string& frame : context) text += fmt::format("\n  while {}", printable(frame, kMessageBytesMax));
  return text;
}

std::string Error::line() const {
  std::string frames;
  for (const std::string& frame : context) {
    frames += fmt::format("{}while {}", frames.empty() ? "" : ", ", printable(frame, kMessageBytesMax));
  }
  return fmt::format("error [{}] {}{}", code_name(code), printable(message, kMessageBytesMax),
                     frames.empty() ? "" : " (" + frames + ")");
}

Error not_enough_memory(std::string_view purpose) {
  return {Code::kDevice,
          fmt::format("not enough memory{}{}: use a smaller --batch-size, image size or network",
                      purpose.empty() ? "" : " for ", purpose),
          {}};
}

void throw_check_failed(const char* file, int line, const char* condition, const std::string& message) {
  throw CheckFailed(fmt::format("{}:{}: check '{}' failed: {}", file, line, condition, message));
}

namespace detail {

tl::unexpected<Error> make_failure(Code code, fmt::string_view format, fmt::format_args args) {
  return tl::unexpected<Error>(Error{code, fmt::vformat(format, args), {}});
}

void add_context(Error& error, fmt::string_view format, fmt::format_args args) {
  error.context.push_back(fmt::vformat(format, args));
}

void throw_check_failed(const char* file, int line, const char* condition, fmt::string_view format,
                        fmt::format_args args) {
  dtrain::throw_check_failed(file, line, condition, fmt::vformat(format, args));
}

}  // namespace detail

}  // namespace dtrain
