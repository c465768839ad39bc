#include "sync/event_log.h"

#include <fcntl.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.h"
#include "sync/text.h"

namespace dtrain::sync {
namespace {

constexpr size_t kPendingMax = size_t{64} << 10;  // number of bytes that are collected before they are written
// Largest number of workers in all machines of an event log, which then need about a gigabyte of memory.
constexpr size_t kMembersMax = size_t{1} << 24;

template <class Number>
bool take_number(std::string_view& text, Number& number) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<size_t>(stop - text.data()));
  return error == std::errc();
}

// Removes a name such as "12.0 " from the front.
bool take_name(std::string_view& line, SliceName& name) {
  if (!take_number(line, name.key) || line.substr(0, 1) != ".") return false;
  line.remove_prefix(1);
  if (!take_number(line, name.part) || line.substr(0, 1) != " ") return false;
  line.remove_prefix(1);
  return true;
}

// Removes " rounds 5 7", and appends the numbers to `rounds`. Returns whether nothing else is left.
bool take_rounds(std::string_view& text, std::vector<Step>& rounds) {
  constexpr std::string_view kWord = " rounds";
  if (!text.starts_with(kWord)) return text.empty();
  text.remove_prefix(kWord.size());
  while (text.starts_with(' ')) {
    text.remove_prefix(1);
    if (!take_number(text, rounds.emplace_back())) return false;
  }
  return text.empty() && !rounds.empty();
}

std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

class Replayer {
 public:
  Replayer(std::string_view event_log, const std::function<void(std::string_view)>& out)
      : rest_(event_log), out_(out) {}

  Result<Replay> run() {
    while (!rest_.empty() && !replay_.difference) DT_TRY_VOID(replay_line(), "line {}", line_);
    return std::move(replay_);
  }

 private:
  Result<> replay_line() {
    std::string_view line = first_line(rest_);
    text_.clear();
    if (line.substr(0, 6) == "slice ") {
      DT_TRY_VOID(begin(line.substr(6)));
    } else {
      DT_TRY_VOID(feed(line));
    }
    compare();
    return {};
  }

  Result<> begin(std::string_view line) {
    const std::string_view whole = line;
    SliceName name;
    const size_t at = line.rfind(" begin ");
    std::string_view step_text = at == line.npos ? "" : line.substr(at + 7);
    Step step = 0;
    std::vector<Step> rounds;
    if (!take_name(line, name) || !take_number(step_text, step) || !take_rounds(step_text, rounds)) {
      return fail(Code::kData, "'{}' does not describe a slice", whole);
    }
    DT_TRY(const Policy policy, parse_policy(line.substr(0, line.rfind(" begin "))));
    if (!rounds.empty() && rounds.size() != group_count(policy)) {
      return fail(Code::kData, "'{}' has {} rounds for {} groups", whole, rounds.size(), group_count(policy));
    }
    members_ += policy.group_of.size();
    if (members_ > kMembersMax)
      return fail(Code::kData, "the slices of the event log have more than {} workers in total", kMembersMax);
    machines_.insert_or_assign(name, Machine(policy, step, rounds));
    append_begin(name, policy, step, rounds, text_);
    replay_.slices++;
    return {};
  }

  Result<> feed(std::string_view line) {
    SliceName name;
    const std::string_view whole = line;
    if (!take_name(line, name)) return fail(Code::kData, "'{}' describes neither a slice nor an event", whole);
    DT_TRY(const Event event, parse_event(line));
    const auto machine = machines_.find(name);
    if (machine == machines_.end())
      return fail(Code::kData, "an event comes before the line that describes its slice {}.{}", name.key, name.part);
    effects_.clear();
    machine->second.on(event, effects_);
    append_event(name, event, effects_, text_);
    replay_.events++;
    return {};
  }

  // Compares `text_` with the next lines of the event log and consumes them. If these are followed by yet another
  // effect, the event log has one too many.
  void compare() {
    out_(text_);
    if (rest_.substr(0, text_.size()) == text_) {
      line_ += static_cast<uint64_t>(std::count(text_.begin(), text_.end(), '\n'));
      rest_.remove_prefix(text_.size());
      if (rest_.substr(0, 2) == "  ") replay_.difference = {line_, std::string(first_line(rest_)), ""};
      return;
    }
    std::string_view replayed = text_;
    while (first_line(rest_).size() < rest_.size() && first_line(rest_) == first_line(replayed)) {
      rest_.remove_prefix(first_line(rest_).size() + 1);
      replayed.remove_prefix(first_line(replayed).size() + 1);
      line_++;
    }
    replay_.difference = {line_, std::string(first_line(rest_)), std::string(first_line(replayed))};
  }

  std::string_view rest_;
  const std::function<void(std::string_view)>& out_;
  uint64_t line_ = 1;
  size_t members_ = 0;
  std::map<SliceName, Machine> machines_;
  std::vector<Effect> effects_;
  std::string text_;  // text of the event being replayed
  Replay replay_;
};

}  // namespace

void append_begin(SliceName slice, const Policy& policy, Step begin, std::span<const Step> rounds, std::string& out) {
  fmt::format_to(std::back_inserter(out), "slice {}.{} {} begin {}{}{}\n", slice.key, slice.part, to_text(policy),
                 begin, rounds.empty() ? "" : " rounds ", fmt::join(rounds, " "));
}

void append_event(SliceName slice, const Event& event, std::span<const Effect> effects, std::string& out) {
  fmt::format_to(std::back_inserter(out), "{}.{} {}\n", slice.key, slice.part, to_text(event));
  for (const Effect& effect : effects) fmt::format_to(std::back_inserter(out), "  {}\n", to_text(effect));
}

Result<std::unique_ptr<EventLog>> EventLog::create(const std::string& path, bool continues) {
  DT_TRY(UniqueFd fd, open_for_lines(path, continues ? O_APPEND : O_TRUNC));
  std::FILE* file = ::fdopen(fd.release(), continues ? "a" : "w");
  if (file == nullptr) return fail(Code::kUsage, "{}: {}", path, std::strerror(errno));
  return std::unique_ptr<EventLog>(new EventLog(path, file));
}

void EventLog::begin(SliceName slice, const Policy& policy, Step begin, std::span<const Step> rounds) {
  const MutexLock lock(mutex_);
  append_begin(slice, policy, begin, rounds, pending_);
}

void EventLog::event(SliceName slice, const Event& event, std::span<const Effect> effects) {
  const MutexLock lock(mutex_);
  append_event(slice, event, effects, pending_);
  if (pending_.size() >= kPendingMax) flush();
}

void EventLog::flush() {
  const bool is_written = errno_ == 0 &&
                          std::fwrite(pending_.data(), 1, pending_.size(), file_.get()) == pending_.size() &&
                          std::fflush(file_.get()) == 0;
  if (!is_written && errno_ == 0) errno_ = errno;
  pending_.clear();
}

Result<> EventLog::finish() {
  const MutexLock lock(mutex_);
  flush();
  if (errno_ == 0) return {};
  return fail(Code::kData, "{}: {}: the event log is incomplete", path_, std::strerror(errno_));
}

Result<Replay> replay(std::string_view event_log, const std::function<void(std::string_view)>& out) {
  return Replayer(event_log, out).run();
}

}  // namespace dtrain::sync
