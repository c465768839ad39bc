#include "observe/tensorboard/event_writer.h"

#include <chrono>
#include <filesystem>
#include <utility>

#include "base/thread.h"

namespace dtrain::observe {

EventTime event_time(uint64_t step) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return {.wall_s = now.count(), .step = step};
}

EventWriter::EventWriter(EventWriterOptions options) : options_(std::move(options)) {
  const auto seconds = static_cast<int64_t>(event_time(0).wall_s);
  path_ = (std::filesystem::path(options_.directory) / event_file_name(seconds, options_.host, options_.pid)).string();
  thread_ = std::thread([this] { serve(); });
}

EventWriter::~EventWriter() {
  uint64_t left_out = 0;
  {
    const MutexLock lock(mutex_);
    ends_ = true;
    left_out = left_out_;
    changed_.notify_all();
  }
  thread_.join();
  if (left_out > 0 && file_)
    options_.log.warn("{} events are missing in '{}', because the disk was too slow", left_out, path_);
}

void EventWriter::add(uint64_t step, std::string event) {
  const MutexLock lock(mutex_);
  if (queue_.size() >= kQueueMax) {
    left_out_++;
    return;
  }
  queue_.push_back({step, std::move(event)});
  changed_.notify_all();
}

void EventWriter::serve() {
  name_thread("tensorboard");
  for (;;) {
    Entry entry;
    {
      const MutexLock lock(mutex_);
      changed_.wait(mutex_, [&]() DT_REQUIRES(mutex_) { return ends_ || !queue_.empty(); });
      if (queue_.empty()) return;
      entry = std::move(queue_.front());
      queue_.pop_front();
    }
    if (!has_begun_) begin(entry.step);
    write(entry.event);
  }
}

void EventWriter::begin(uint64_t step) {
  has_begun_ = true;
  Result<EventFile> file = EventFile::create(path_, options_.fault);
  if (!file) return give_up(file.error());
  file_.emplace(std::move(*file));
  write(version_event(event_time(0).wall_s));
  write(start_event(event_time(step + 1)));
}

void EventWriter::write(const std::string& event) {
  if (!file_) return;
  if (const Result<> written = file_->append(event); !written) give_up(written.error());
}

void EventWriter::give_up(const Error& error) {
  options_.log.warn("{}. Training continues, but TensorBoard gets no more events from this process", error.message);
  file_.reset();
}

}  // namespace dtrain::observe
