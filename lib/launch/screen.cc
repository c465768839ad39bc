#include "launch/screen.h"

#include <fcntl.h>

#include <cerrno>

#include "base/poll_until.h"
#include "launch/message.h"

namespace dtrain::launch {
namespace {

constexpr const char* kLineWord = "line";
constexpr const char* kLiveWord = "live";
constexpr const char* kFinishWord = "finish";
constexpr const char* kNoShare = "-";  // sent in place of Live::done if that is not set

std::string message_of(const Live& live) {
  std::vector<std::string> words = {kLiveWord, live.text, live.done ? fmt::format("{:.4f}", *live.done) : kNoShare};
  words.insert(words.end(), live.details.begin(), live.details.end());
  return to_message(words);
}

std::string message_of(const std::string& line, Fit fit) {
  return to_message({kLineWord, line, std::to_string(static_cast<int>(fit))});
}

Live live_of(const std::vector<std::string>& words) {
  std::optional<double> done;
  if (words[2] != kNoShare) done = std::strtod(words[2].c_str(), nullptr);
  return {words[1], done, {words.begin() + 3, words.end()}};
}

Fit fit_of(const std::string& word) {
  for (const Fit fit : {Fit::kWords, Fit::kParts}) {
    if (word == std::to_string(static_cast<int>(fit))) return fit;
  }
  return Fit::kAsIs;
}

}  // namespace

Screen::Screen(UniqueFd out, size_t bytes_max) : out_(std::move(out)), bytes_max_(bytes_max) {
  ::fcntl(out_.get(), F_SETFL, ::fcntl(out_.get(), F_GETFL) | O_NONBLOCK);
}

Screen::~Screen() {
  flush();
  while (out_.open() && !empty()) {
    std::vector<pollfd> watched;
    watch(watched);
    poll_until(watched, std::nullopt);
    flush();
  }
}

void Screen::live(const Live& live) {
  add({Kind::kLive, message_of(live)});
}

void Screen::watch(std::vector<pollfd>& watched) const {
  if (out_.open() && !empty()) watched.push_back({.fd = out_.get(), .events = POLLOUT, .revents = 0});
}

void Screen::add(Entry entry) {
  const bool replaces = entry.kind == Kind::kLive && !queue_.empty() && queue_.back().kind == Kind::kLive;
  if (replaces) {
    bytes_ -= queue_.back().text.size() + 1;
    queue_.pop_back();
  }
  bytes_ += entry.text.size() + 1;
  queue_.push_back(std::move(entry));
  while (bytes_ > bytes_max_ && queue_.size() > 1) leave_out_oldest();
  flush();
}

void Screen::leave_out_oldest() {
  if (queue_.front().kind == Kind::kLine) left_out_++;
  bytes_ -= queue_.front().text.size() + 1;
  queue_.pop_front();
}

std::string Screen::next_message() {
  if (left_out_ > 0) {
    return message_of(fmt::format("dtrain: {} lines are not shown, because the terminal was too slow "
                                  "(the logs in the run directory have them)",
                                  std::exchange(left_out_, 0)),
                      Fit::kAsIs);
  }
  const Entry entry = std::move(queue_.front());
  queue_.pop_front();
  bytes_ -= entry.text.size() + 1;
  if (entry.kind == Kind::kFinish) return to_message({kFinishWord});
  return entry.kind == Kind::kLive ? entry.text : message_of(entry.text, entry.fit);
}

void Screen::flush() {
  while (out_.open() && !empty()) {
    if (sending_.empty()) sending_ = next_message();
    const ssize_t put = ::write(out_.get(), sending_.data(), sending_.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) return;
    if (put <= 0) return out_.close();  // the write has failed, because the terminal is gone
    sending_.erase(0, static_cast<size_t>(put));
  }
}

Result<> show(std::string_view message, Console& console) {
  DT_TRY(const std::vector<std::string> words, parse_message(message));
  const std::string kind = words.empty() ? "" : words[0];
  if (kind == kLineWord && words.size() == 3) {
    console.line(words[1], fit_of(words[2]));
  } else if (kind == kLiveWord && words.size() >= 3) {
    console.live(live_of(words), Console::Time::clock::now());
  } else if (kind == kFinishWord) {
    console.finish();
  } else {
    return fail(Code::kUsage, "'{}' is not a message for the terminal", kind);
  }
  return {};
}

}  // namespace dtrain::launch
