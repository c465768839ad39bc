#include "telemetry/timeline.h"

#include <pthread.h>

#include <utility>

namespace dtrain::telemetry {

namespace {

std::string own_thread_name() {
  std::array<char, 16> name{};
  return ::pthread_getname_np(::pthread_self(), name.data(), name.size()) == 0 ? name.data() : "";
}

}  // namespace

Timeline::Timeline() : rows_(std::make_unique<std::array<Row, kRowsMax>>()) {}

void Timeline::begin() {
  end();
  for (Row& row : *rows_) {
    const MutexLock lock(row.mutex);
    row.content.events.clear();
  }
  count_ = 0;
  dropped_ = 0;
  began_ns_ = now_ns();
  is_on_ = true;
}

void Timeline::end() {
  is_on_ = false;
}

// The row of the track, or of the calling thread if `track` is null. The search starts at a position derived from the
// owner's number, so the row is usually found at once. The number of a thread is the address of thread-local memory;
// the number of a track is the address of its name.
Timeline::Row* Timeline::row_of(const char* track) {
  const uint64_t self = track != nullptr ? reinterpret_cast<uint64_t>(track) : static_cast<uint64_t>(::pthread_self());
  constexpr uint64_t kSpread = 0x9E3779B97F4A7C15;
  constexpr unsigned kShift = 40;
  const size_t first = (self * kSpread) >> kShift;
  for (size_t i = 0; i < kRowsMax; i++) {
    Row& row = (*rows_)[(first + i) % kRowsMax];
    uint64_t owner = row.owner.load(std::memory_order_acquire);
    if (owner == self) return &row;
    if (owner == 0 && row.owner.compare_exchange_strong(owner, self)) {
      const MutexLock lock(row.mutex);
      row.content.thread = track != nullptr ? track : own_thread_name();
      return &row;
    }
  }
  return nullptr;
}

void Timeline::add(const TimelineEvent& event, std::span<const TimelineEvent> arrows) {
  add_to_row(nullptr, event, arrows);
}

void Timeline::add_to(const char* track, const TimelineEvent& event) {
  add_to_row(track, event, {});
}

void Timeline::add_to_row(const char* track, const TimelineEvent& event, std::span<const TimelineEvent> arrows) {
  // A span that began before the recording is left out, because it has no counterparts in other processes.
  if (!is_on() || event.begin_ns < began_ns_.load(std::memory_order_relaxed)) return;
  const size_t events = 1 + arrows.size();
  const bool fits = count_.fetch_add(events, std::memory_order_relaxed) + events <= kEventsMax;
  Row* const row = fits ? row_of(track) : nullptr;
  if (row == nullptr) {
    dropped_.fetch_add(events, std::memory_order_relaxed);
    return;
  }
  const MutexLock lock(row->mutex);
  row->content.events.push_back(event);
  row->content.events.insert(row->content.events.end(), arrows.begin(), arrows.end());
}

const char* Timeline::keep(std::string_view name) {
  const MutexLock lock(mutex_);
  return names_.emplace(name).first->c_str();
}

std::vector<TimelineRow> Timeline::rows() const {
  std::vector<TimelineRow> all;
  for (Row& row : *rows_) {
    const MutexLock lock(row.mutex);
    if (!row.content.events.empty()) all.push_back(row.content);
  }
  return all;
}

void Span::begin(Timeline* timeline, const char* name, const char* category) {
  open_.emplace(Open{.timeline = timeline, .event = {}, .arrows = {}});
  open_->event.name = name;
  open_->event.category = category;
  open_->event.begin_ns = Timeline::now_ns();
}

void Span::end() {
  if (!open_) return;
  open_->event.end_ns = Timeline::now_ns();
  open_->timeline->add(open_->event, open_->arrows);
  open_.reset();
}

void Span::set(const char* name, int64_t value) {
  for (TimelineEvent::Argument& argument : open_->event.arguments) {
    if (argument.name != nullptr) continue;
    argument = {name, value};
    return;
  }
}

void Span::add_arrow(ArrowPoint point, uint64_t id) {
  TimelineEvent event;
  event.name = "request";
  event.category = "wire";
  event.begin_ns = Timeline::now_ns();
  event.arrow = id;
  event.kind = TimelineEvent::Kind::kArrow;
  event.point = point;
  open_->arrows.push_back(event);
}

}  // namespace dtrain::telemetry
