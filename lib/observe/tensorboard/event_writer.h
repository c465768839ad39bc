// Writes events to a file from a separate thread, so that a slow disk does not slow training down. An error of the file
// does not end the training: the first error becomes a warning, and no more events are written.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/mutex.h"
#include "observe/tensorboard/event_file.h"
#include "observe/tensorboard/events.h"

namespace dtrain::observe {

struct EventWriterOptions {
  std::string directory;
  std::string host;
  int64_t pid = 0;
  Log log;
  EventFile::Fault fault = nullptr;  // for tests: as in EventFile, called before each system call that can fail
};

// Thread-safe.
class EventWriter {
 public:
  // The file is created when the first event is added. It then declares that all later steps in older files of the
  // directory are void, because a resumed run makes these steps again.
  explicit EventWriter(EventWriterOptions options);
  ~EventWriter();  // writes all events first
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // At most kQueueMax events wait. If the queue is full, further events are dropped, and the destructor warns about it.
  static constexpr size_t kQueueMax = 4096;
  void add(uint64_t step, std::string event) DT_EXCLUDES(mutex_);

 private:
  struct Entry {
    uint64_t step;
    std::string event;
  };
  void serve() DT_EXCLUDES(mutex_);
  void begin(uint64_t step);
  void write(const std::string& event);
  void give_up(const Error& error);

  EventWriterOptions options_;
  std::string path_;
  // Used by the thread, and by the destructor after the thread has ended:
  bool has_begun_ = false;
  std::optional<EventFile> file_;  // the event file; nullopt: not created yet, or given up after an error
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<Entry> queue_ DT_GUARDED_BY(mutex_);
  uint64_t left_out_ DT_GUARDED_BY(mutex_) = 0;
  bool ends_ DT_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// Returns the current time together with the step.
EventTime event_time(uint64_t step);

}  // namespace dtrain::observe
