// Records what the threads of a process do, and when: spans, and the points at which an arrow from one span to another
// begins, passes and ends. tracer.h decides when the timeline records; trace_file.h writes a file that Perfetto and
// chrome://tracing display.
//
// Each thread has its own row, so that threads do not wait for each other. Each track has a row too; a track shows what
// a device does in one of its queues. While recording is off, a span costs one relaxed load.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/mutex.h"

namespace dtrain::telemetry {

// The beginning, a middle point or the end of an arrow. The events of one arrow have the same id, in all processes.
enum class ArrowPoint : uint8_t { kBegin, kPass, kEnd };

// The arrow that follows a worker's request to a server and back. `request`: number of the request
// (kvstore/wire/header.h).
constexpr uint64_t arrow_of_request(uint32_t rank, uint64_t request) {
  constexpr unsigned kRequestBits = 40;
  return (static_cast<uint64_t>(rank + 1) << kRequestBits) | (request & ((uint64_t{1} << kRequestBits) - 1));
}

struct TimelineEvent {
  enum class Kind : uint8_t { kSpan, kArrow };
  struct Argument {
    const char* name = nullptr;  // name of the number; null: this argument is not used
    int64_t value = 0;
  };
  const char* name = "";      // must live as long as the program or the timeline
  const char* category = "";  // the kind of work: a text that lives as long as the program
  int64_t begin_ns = 0;       // the beginning of a span, or the time of an arrow's point, on the steady clock
  int64_t end_ns = 0;         // the end of a span, on the same clock
  uint64_t arrow = 0;         // the id of the arrow, for an event of the kind kArrow
  std::array<Argument, 3> arguments = {};
  Kind kind = Kind::kSpan;
  ArrowPoint point = ArrowPoint::kBegin;
};

struct TimelineRow {
  std::string thread;  // the thread's name when it recorded its first event, or the track's name
  std::vector<TimelineEvent> events;
};

// Any thread may call it.
class Timeline {
 public:
  // Largest number of events of all threads together; they take some 45 MB.
  static constexpr size_t kEventsMax = 500'000;
  static constexpr size_t kRowsMax = 512;

  Timeline();

  [[nodiscard]] bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  // Discards earlier recordings, and records from now on.
  void begin() DT_EXCLUDES(mutex_);
  // Stops recording. Open spans are left out.
  void end();

  // add() and add_to() add an event. While recording is off, they do nothing. Events beyond the limits are dropped and
  // counted.
  void add(const TimelineEvent& event, std::span<const TimelineEvent> arrows = {});
  // Adds an event to the row of a track, whose name must come from keep().
  void add_to(const char* track, const TimelineEvent& event);
  // Returns a copy of a name that lives as long as the timeline, for names that do not live as long as the program.
  // Takes a lock, so callers should keep the result.
  const char* keep(std::string_view name) DT_EXCLUDES(mutex_);

  // The recorded events of each thread; threads without events are left out.
  [[nodiscard]] std::vector<TimelineRow> rows() const;
  // Number of events dropped because of the limits, since begin().
  [[nodiscard]] uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

  static int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

 private:
  struct Row {
    std::atomic<uint64_t> owner = 0;  // the thread, or the address of the track's name; 0: the row has no owner yet
    Mutex mutex;                      // only rows() and begin() compete with the owner
    TimelineRow content DT_GUARDED_BY(mutex);
  };
  Row* row_of(const char* track);
  void add_to_row(const char* track, const TimelineEvent& event, std::span<const TimelineEvent> arrows);

  std::atomic<bool> is_on_ = false;
  std::atomic<int64_t> began_ns_ = 0;
  std::atomic<size_t> count_ = 0;
  std::atomic<uint64_t> dropped_ = 0;
  std::unique_ptr<std::array<Row, kRowsMax>> rows_;
  Mutex mutex_;
  std::unordered_set<std::string> names_ DT_GUARDED_BY(mutex_);
};

// Records the time from its construction to its destruction, on this thread. `timeline` may be null.
class Span {
 public:
  Span(Timeline* timeline, const char* name, const char* category) {
    if (timeline != nullptr && timeline->is_on()) begin(timeline, name, category);
  }
  ~Span() {
    if (open_) end();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  // Adds a number that is shown with the span, at most three. `name` must be static text.
  template <class Number>
  Span& with(const char* name, Number value) {
    if (open_) set(name, static_cast<int64_t>(value));
    return *this;
  }
  // An arrow begins, passes or ends here, at this moment. It is recorded only if the span is recorded.
  Span& arrow(ArrowPoint point, uint64_t id) {
    if (open_) add_arrow(point, id);
    return *this;
  }
  // Ends the span before it is destroyed.
  void end();
  [[nodiscard]] bool is_recorded() const { return open_.has_value(); }

 private:
  struct Open {
    Timeline* timeline;
    TimelineEvent event;
    std::vector<TimelineEvent> arrows;
  };
  void begin(Timeline* timeline, const char* name, const char* category);
  void set(const char* name, int64_t value);
  void add_arrow(ArrowPoint point, uint64_t id);

  std::optional<Open> open_;  // the recorded beginning of the span; nullopt: the span is not recorded
};

}  // namespace dtrain::telemetry
