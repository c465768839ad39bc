// What a server's machines were told and what they answered, as text (--trace-events FILE), and the way back: the same
// events are given to fresh machines, and the same text must come out.
//
//   slice 12.0 ssp 4 lead 2 begin 0     a slice (key 12, part 0) has got its values: a machine begins, or begins anew
//   12.0 push 1 step 0                  an event of this slice, in the words of text.h
//     add 1 to group 1                  its effects, two spaces in front of each
//     apply group 1 staleness 1
//
// Lines of different slices are in the order in which they were written; those of one slice in the order of its events.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "sync/machine.h"

namespace dtrain::sync {

struct SliceName {
  uint32_t key = 0;
  uint32_t part = 0;
  bool operator<(const SliceName& other) const { return std::pair(key, part) < std::pair(other.key, other.part); }
};

// The lines of a trace, with their ends.
void append_begin(SliceName slice, const Policy& policy, Step begin, std::string& out);
void append_event(SliceName slice, const Event& event, std::span<const Effect> effects, std::string& out);

// A server's trace file. Any thread. What is not written yet is whole events: a process that is killed leaves a trace
// that can be replayed.
class TraceWriter {
 public:
  // Replaces a file that is there. Code::kUsage if it cannot be created.
  static Result<std::unique_ptr<TraceWriter>> create(const std::string& path);

  void begin(SliceName slice, const Policy& policy, Step begin);
  void event(SliceName slice, const Event& event, std::span<const Effect> effects);
  // Writes what is left. Code::kData if that or an earlier write failed: the trace is not whole.
  Result<> finish();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  TraceWriter(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  void flush();

  const std::string path_;
  std::mutex mutex_;
  std::unique_ptr<std::FILE, Close> file_;
  std::string pending_;
  int errno_ = 0;  // of the first write that failed; none is tried after it
};

struct Replay {
  uint64_t slices = 0;
  uint64_t events = 0;
  struct Difference {
    uint64_t line = 0;  // from 1
    std::string in_trace, replayed;
  };
  std::optional<Difference> difference;  // the first one; nothing is replayed after it
};

// `out` gets the trace anew, piece by piece; equal to `trace` unless there is a difference. Code::kData for a line that
// is neither a slice nor an event of one that has begun.
Result<Replay> replay(std::string_view trace, const std::function<void(std::string_view)>& out);

}  // namespace dtrain::sync
