#include "observe/tensorboard/event_writer.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "base/thread.h"

namespace dtrain::observe {
namespace {

namespace fs = std::filesystem;

bool is_event_file(const fs::path& path) {
  return path.filename().string().starts_with("events.out.tfevents.");
}

bool is_end(const fs::path& path) {
  return is_event_file(path) && path.filename().string().ends_with(kEndSuffix);
}

bool has_events(const std::string& directory) {
  std::error_code ignored;
  const fs::directory_iterator entries(directory, ignored);
  return std::any_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    return is_event_file(entry.path()) && !is_end(entry.path());
  });
}

void remove_ends(const std::string& directory) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    if (is_end(entry.path())) fs::remove(entry.path(), ignored);
  }
}

}  // namespace

EventTime event_time(uint64_t step) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return {.wall_s = now.count(), .step = step};
}

EventWriter::EventWriter(EventWriterOptions options)
    : options_(std::move(options)), continues_(has_events(options_.directory)) {
  const auto seconds = static_cast<int64_t>(event_time(0).wall_s);
  path_ = (fs::path(options_.directory) / event_file_name(seconds, options_.host, options_.pid)).string();
  thread_ = std::thread([this] { serve(); });
}

EventWriter::~EventWriter() {
  join();
}

void EventWriter::join() {
  if (!thread_.joinable()) return;
  uint64_t left_out = 0;
  {
    const MutexLock lock(mutex_);
    ends_ = true;
    left_out = left_out_;
    changed_.notify_all();
  }
  thread_.join();
  if (left_out > 0 && file_) options_.log.warn("{} events are missing in '{}': its disk was too slow", left_out, path_);
}

void EventWriter::add(uint64_t step, Make make) {
  const MutexLock lock(mutex_);
  last_step_ = step;
  if (queue_.size() >= kQueueMax) {
    left_out_++;
    return;
  }
  queue_.push_back({step, std::move(make)});
  changed_.notify_all();
}

uint64_t EventWriter::last_step() const {
  const MutexLock lock(mutex_);
  return last_step_;
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
    if (!file_) continue;
    const Result<> made = catching([&]() -> Result<> {
      write(entry.make());
      return {};
    });
    if (!made) give_up(made.error());
  }
}

void EventWriter::begin(uint64_t step) {
  has_begun_ = true;
  remove_ends(options_.directory);
  create();
  write(start_event(event_time(step + 1)));
}

void EventWriter::create() {
  Result<EventFile> file = EventFile::create(path_, options_.fault);
  if (!file) return give_up(file.error());
  file_.emplace(std::move(*file));
  write(version_event(event_time(0).wall_s));
}

void EventWriter::write(const std::string& event) {
  if (!file_ || event.empty()) return;
  if (const Result<> written = file_->append(event); !written) give_up(written.error());
}

void EventWriter::give_up(const Error& error) {
  options_.log.warn("{}. Training goes on, but TensorBoard gets no more events of this process", error.message);
  file_.reset();
}

void EventWriter::end(const std::string& event) {
  join();
  if (!file_) return;
  path_ += kEndSuffix;
  create();
  write(event);
}

}  // namespace dtrain::observe
