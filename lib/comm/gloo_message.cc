#include "comm/gloo_message.h"

namespace dtrain::comm {

std::string reason(const std::exception& e) {
  const std::string text = e.what();
  const size_t end = text.find("] ");
  return text.starts_with('[') && end != std::string::npos ? text.substr(end + 2) : text;
}

bool is_complete(const Message& message) {
  constexpr std::chrono::milliseconds kNow{1};
  try {
    // Tries twice, because the first try may only take notice of an abort that is still pending.
    return message.wait(kNow) || message.wait(kNow);
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace dtrain::comm
