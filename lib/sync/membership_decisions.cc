// The decisions of a membership machine as texts, with which another machine continues the job.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>

#include "sync/membership.h"

namespace dtrain::sync::membership {
namespace {

constexpr std::string_view kJob = "job", kView = "view", kProcess = "process ";

template <class T>
concept Number = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <class T>
concept Map = requires {
  typename T::mapped_type;
};
template <class T>
concept List = requires(T list) {
  list.insert(list.end(), *list.begin());
}
&&!Map<T> && !std::is_same_v<T, std::string>;

// Writes values one after the other: numbers in decimal, each followed by a space; before a text its length; before a
// list or map the number of entries; before an optional value 0 or 1. `Fields` lists the members of structures.
template <class Fields>
class Writer {
 public:
  template <class... T>
  void operator()(T&... values) {
    (write(values), ...);
  }
  std::string text;

 private:
  void number(uint64_t value) { fmt::format_to(std::back_inserter(text), "{} ", value); }
  template <Number T>
  void write(T& value) {
    number(static_cast<uint64_t>(value));
  }
  void write(std::string& value) {
    number(value.size());
    text += value;
  }
  template <class T>
  void write(std::optional<T>& value) {
    number(value.has_value() ? 1 : 0);
    if (value) write(*value);
  }
  template <List T>
  void write(T& values) {
    number(values.size());
    for (auto value : values) write(value);
  }
  template <Map T>
  void write(T& values) {
    number(values.size());
    for (auto& [key, value] : values) {
      auto name = key;
      write(name);
      write(value);
    }
  }
  template <class T>
  void write(T& value) {
    Fields::list(*this, value);
  }
};

// Reads what a Writer has written. `ok`: whether the text was such a text so far.
template <class Fields>
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}
  template <class... T>
  void operator()(T&... values) {
    (read(values), ...);
  }
  [[nodiscard]] bool is_at_end() const { return rest_.empty(); }
  bool ok = true;

 private:
  uint64_t number(uint64_t max) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    const auto length = static_cast<size_t>(end - rest_.data());
    ok = ok && error == std::errc() && length < rest_.size() && *end == ' ' && value <= max;
    if (!ok) return 0;
    rest_.remove_prefix(length + 1);
    return value;
  }
  size_t count() { return number(rest_.size()); }  // an entry has at least one byte
  template <Number T>
  void read(T& value) {
    if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(number(Fields::last(value)));
    } else {
      value = static_cast<T>(number(std::numeric_limits<T>::max()));
    }
  }
  void read(std::string& value) {
    const size_t size = count();
    ok = ok && size <= rest_.size();
    if (!ok) return;
    value = rest_.substr(0, size);
    rest_.remove_prefix(size);
  }
  template <class T>
  void read(std::optional<T>& value) {
    bool is_there = false;
    read(is_there);
    value.reset();
    if (is_there) read(value.emplace());
  }
  template <List T>
  void read(T& values) {
    values.clear();
    for (size_t left = count(); left > 0 && ok; left--) {
      typename T::value_type value{};
      read(value);
      values.insert(values.end(), std::move(value));
    }
  }
  template <Map T>
  void read(T& values) {
    values.clear();
    for (size_t left = count(); left > 0 && ok; left--) {
      typename T::key_type key{};
      read(key);
      read(values[key]);
    }
  }
  template <class T>
  void read(T& value) {
    Fields::list(*this, value);
  }

  std::string_view rest_;
};

}  // namespace

// The members that are decisions, each structure's in one order for both directions. What is left out comes again by
// itself: signs of life, open barriers, answers to Hold, second joins, lost connections, requests to leave by a signal.
// The texts of JobSpecs in requests to join are compared only when they arrive.
struct Machine::Fields {
  static uint64_t last(Phase /*of*/) { return static_cast<uint64_t>(Phase::kEnded); }
  static uint64_t last(Standing /*of*/) { return static_cast<uint64_t>(Standing::kTakesPart); }
  static uint64_t last(Role /*of*/) { return static_cast<uint64_t>(Role::kServer); }
  static uint64_t last(Seat::State /*of*/) { return static_cast<uint64_t>(Seat::State::kLive); }
  static uint64_t last(Code /*of*/) { return static_cast<uint64_t>(Code::kUnavailable); }

  template <class Archive>
  static void list(Archive& archive, Seat& seat) {
    archive(seat.incarnation, seat.state, seat.begin);
  }
  template <class Archive>
  static void list(Archive& archive, ServerSeat& seat) {
    archive(seat.incarnation, seat.is_live, seat.address);
  }
  template <class Archive>
  static void list(Archive& archive, View& view) {
    archive(view.number, view.workers, view.servers, view.restores, view.restored, view.must_restore);
  }
  template <class Archive>
  static void list(Archive& archive, Vacancy& vacancy) {
    archive(vacancy.why);
  }
  template <class Archive>
  static void list(Archive& archive, Join& join) {
    archive(join.incarnation, join.role, join.want_rank, join.records_train, join.records_val, join.lacks_index,
            join.is_late, join.is_launched, join.data_hash, join.formerly, join.address);
  }
  template <class Archive>
  static void list(Archive& archive, Process& process) {
    archive(process.join, process.arrival, process.rank, process.has_ended, process.is_lost, process.must_leave,
            process.has_left, process.standing, process.view, process.viewed, process.restores, process.joined_barrier,
            process.steps_begun, process.seats_lost_ms);
  }
  template <class Archive>
  static void list(Archive& archive, Machine& machine) {
    archive(machine.phase_, machine.arrivals_, machine.barriers_released_, machine.entering_.ranks,
            machine.entering_.replaced, machine.entering_.view, machine.first_, machine.vacant_,
            machine.vacant_servers_, machine.restore_view_, machine.trains_, machine.stop_set_of_, machine.stop_after_,
            machine.hold_, machine.meets_, machine.must_meet_, machine.stop_waits_by_, machine.stop_requested_,
            machine.preempted_, machine.failure_.code, machine.failure_.message);
  }

  template <class T>
  static std::string text(T& value) {
    Writer<Fields> writer;
    writer(value);
    return std::move(writer.text);
  }
  template <class T>
  static bool parse(std::string_view text, T& value) {
    Reader<Fields> reader(text);
    reader(value);
    return reader.ok && reader.is_at_end();
  }
};

// Writing needs no object that can be changed, but shares its lists of members with reading.
std::optional<Decisions> Machine::decisions() const {
  if (!started() || phase_ == Phase::kEnded) return std::nullopt;
  auto& self = const_cast<Machine&>(*this);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  Decisions decisions;
  decisions.emplace(kJob, Fields::text(self));
  decisions.emplace(kView, Fields::text(self.view_));
  for (auto& [incarnation, process] : self.processes_) {
    decisions.emplace(fmt::format("{}{:016x}", kProcess, incarnation), Fields::text(process));
  }
  return decisions;
}

Result<> Machine::restore(const Decisions& decisions, Millis now_ms) {
  now_ms_ = phase_since_ms_ = now_ms;
  bool is_whole = decisions.contains(std::string(kJob)) && decisions.contains(std::string(kView));
  for (const auto& [key, text] : decisions) {
    if (key == kJob) is_whole = is_whole && Fields::parse(text, *this);
    if (key == kView) is_whole = is_whole && Fields::parse(text, view_);
    if (!key.starts_with(kProcess)) continue;
    Process process;
    is_whole = is_whole && Fields::parse(text, process);
    process.heard_ms = process.standing_since_ms = now_ms;
    processes_[process.join.incarnation] = std::move(process);
  }
  for (auto* vacant : {&vacant_, &vacant_servers_}) {
    for (auto& [rank, vacancy] : *vacant) vacancy.since_ms = now_ms;
  }
  if (is_whole && fits_settings()) return {};
  return fail(Code::kData, "the decisions about the job are not complete, or were made for a job of another size");
}

bool Machine::fits_settings() const {
  const size_t seats = view_.workers.size();  // none while the processes prepare their data
  const auto has_place = [&](const auto& entry) {
    const Process& process = entry.second;
    return process.rank < (process.join.role == Role::kWorker ? settings_.seats() : settings_.servers);
  };
  const auto is_seat = [&](uint32_t rank) { return rank < seats; };
  return started() && phase_ != Phase::kEnded &&
         (seats == settings_.seats() || (seats == 0 && phase_ != Phase::kRunning)) &&
         std::ranges::all_of(processes_, has_place) && std::ranges::all_of(entering_.ranks, is_seat) &&
         std::ranges::all_of(vacant_, [&](const auto& entry) { return is_seat(entry.first); }) &&
         view_.servers.size() == (seats == 0 ? 0 : settings_.servers) &&
         std::ranges::all_of(vacant_servers_, [&](const auto& entry) { return entry.first < view_.servers.size(); }) &&
         (stop_set_of_.empty() || stop_set_of_.size() == settings_.seats());
}

std::vector<Member> Machine::vacancies() const {
  std::vector<Member> empty;
  for (const auto& [rank, vacancy] : vacant_) {
    if (view_.workers[rank].state == Seat::State::kEmpty) empty.push_back({Role::kWorker, rank});
  }
  for (const auto& [rank, vacancy] : vacant_servers_) empty.push_back({Role::kServer, rank});
  return empty;
}

}  // namespace dtrain::sync::membership
