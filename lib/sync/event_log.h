// The event log of a server's machines (--trace-events FILE): the events that they received and the effects that they
// returned, as text. An event log can be replayed: the same events are fed to new machines, which must produce the same
// text.
//
//   slice 12.0 ssp 4 lead 2 begin 0     a slice (key 12, part 0) was initialized: its machine starts, or starts over
//   12.0 push 1 step 0                  an event of this slice, in the notation of text.h
//     add 1 to group 1                  its effects, each indented by two spaces
//     apply group 1 staleness 1
//
// "begin 90 rounds 61 62" gives the next step of each group, if that is not the slice's version.
//
// The lines of one slice are in the order of its events. Lines of different slices are in the order of writing.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/mutex.h"
#include "sync/machine.h"

namespace dtrain::sync {

struct SliceName {
  uint32_t key = 0;
  uint32_t part = 0;
  bool operator<(const SliceName& other) const { return std::pair(key, part) < std::pair(other.key, other.part); }
};

// These functions append lines of an event log to `out`, each ending in a newline.
void append_begin(SliceName slice, const Policy& policy, Step begin, std::span<const Step> rounds, std::string& out);
void append_event(SliceName slice, const Event& event, std::span<const Effect> effects, std::string& out);

// Writes a server's event log. Thread-safe. It buffers and writes whole events only, so the event log of a process that
// was killed can be replayed.
class EventLog {
 public:
  // Replaces an existing file or, with `continues`, appends to it. Code::kUsage if the file cannot be opened.
  static Result<std::unique_ptr<EventLog>> create(const std::string& path, bool continues = false);

  void begin(SliceName slice, const Policy& policy, Step begin, std::span<const Step> rounds) DT_EXCLUDES(mutex_);
  void event(SliceName slice, const Event& event, std::span<const Effect> effects) DT_EXCLUDES(mutex_);
  // Writes what is still buffered. Code::kData if this or an earlier write failed; then the event log is incomplete.
  Result<> finish() DT_EXCLUDES(mutex_);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  EventLog(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  void flush() DT_REQUIRES(mutex_);

  const std::string path_;
  Mutex mutex_;
  std::unique_ptr<std::FILE, Close> file_ DT_GUARDED_BY(mutex_);
  std::string pending_ DT_GUARDED_BY(mutex_);
  int errno_ DT_GUARDED_BY(mutex_) = 0;  // error of the first failed write, after which nothing is written
};

struct Replay {
  uint64_t slices = 0;
  uint64_t events = 0;
  struct Difference {
    uint64_t line = 0;  // number of the line, counted from 1
    std::string in_log, replayed;
  };
  std::optional<Difference> difference;  // the first difference, where the replay stops
};

// Gives the events of `event_log` to new state machines, and passes the log of what these do to `out`, piece by piece.
// That log has the same text as `event_log` up to the first difference, where the replay stops. Code::kData if a line
// is neither a slice nor an event of a slice that has begun.
Result<Replay> replay(std::string_view event_log, const std::function<void(std::string_view)>& out);

}  // namespace dtrain::sync
