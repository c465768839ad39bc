#include "kvstore/worker/slice_requests.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/thread.h"
#include "telemetry/timeline.h"

namespace dtrain::kvstore {
namespace {

// If a message arrives damaged this many times in a row, the store fails: a network card or a memory module that does
// this will not stop.
constexpr int kDamagedMax = 10;
constexpr uint64_t kDamagedPerLine = 100;
// The calling thread itself sends a request with at most this many bytes, because that takes less time than waking
// another thread.
constexpr size_t kSmallBytes = 1 << 16;

uint64_t number_of(const Head& request) {
  if (const auto* header = std::get_if<Header>(&request)) return header->request;
  const auto* control = std::get_if<ControlRequest>(&request);
  return control == nullptr ? 0 : control->request;
}

const char* name_of_request(const Head& request) {
  const auto* header = std::get_if<Header>(&request);
  if (header == nullptr) return "send a control message";
  return header->kind == Kind::kPush ? "push" : "pull";
}

// The step that begins with the weights for which the request waits.
uint64_t wanted_version(const Head& request) {
  if (const auto* header = std::get_if<Header>(&request)) return header->step + (header->kind == Kind::kPush ? 1 : 0);
  const auto* values = std::get_if<AssignValues>(&std::get<ControlRequest>(request).what);
  return values == nullptr ? 0 : values->counters.updates;
}

std::map<SliceId, size_t> index_by_id(std::span<const Slice> placement) {
  std::map<SliceId, size_t> index;
  for (const Slice& slice : placement) index.emplace(SliceId{slice.key, slice.part}, index.size());
  return index;
}

size_t server_count(std::span<const Slice> placement) {
  size_t count = 0;
  for (const Slice& slice : placement) count = std::max<size_t>(count, slice.server + 1);
  return count;
}

}  // namespace

SliceRequests::SliceRequests(SliceRequestsOptions options, Waits& waits)
    : options_(std::move(options)),
      slice_by_id_(index_by_id(options_.placement)),
      waits_(waits),
      entries_(options_.placement.size()),
      open_(options_.groups, 0),
      traffic_(server_count(options_.placement)) {}

void SliceRequests::attach(std::vector<std::shared_ptr<Pipe>> pipes) {
  for (const Slice& slice : options_.placement) {
    // The job's placement was checked against the number of servers when it was parsed.
    DT_CHECK(slice.server < pipes.size(), "server {} of {}", slice.server, pipes.size());
  }
  pipes_ = std::move(pipes);
  sender_ = std::thread([this] { serve(); });
}

SliceRequests::~SliceRequests() {
  {
    const MutexLock lock(mutex_);
    is_closing_ = true;
  }
  to_send_.notify_all();
  if (sender_.joinable()) sender_.join();
}

// The following functions make and send requests.

void SliceRequests::address(Head& head, const Slice& slice) {
  if (auto* header = std::get_if<Header>(&head)) {
    header->rank = options_.rank;
    header->incarnation = options_.incarnation;
    header->request = ++request_count_;
    header->key = slice.key;
    header->slice = slice.part;
    return;
  }
  auto& control = std::get<ControlRequest>(head);
  control.id = {slice.key, slice.part};
  control.rank = options_.rank;
  control.incarnation = options_.incarnation;
  control.request = ++request_count_;
}

Result<> SliceRequests::send(size_t slice, SliceRequest request) {
  {
    const MutexLock lock(mutex_);
    if (const Error* why = why_not()) return tl::unexpected(*why);
    Entry& entry = entries_[slice];
    DT_CHECK(!entry.stage.is_open(), "key {} slice {} still waits for an answer", at(slice).key, at(slice).part);
    address(request.head, at(slice));
    entry.request = std::move(request);
    open_[entry.request.group]++;
    const bool by_caller = entry.request.by_caller || entry.request.values.size_bytes() <= kSmallBytes;
    on(slice, by_caller ? RequestStage::Event::kAskNow : RequestStage::Event::kAsk);
  }
  return {};
}

void SliceRequests::on(size_t slice, RequestStage::Event event) {
  switch (entries_[slice].stage.on(event)) {
    case RequestStage::Action::kEnqueue:
      queue_.push_back(slice);
      to_send_.notify_one();
      break;
    case RequestStage::Action::kSend: send_now(slice); break;
    case RequestStage::Action::kClose: close_request(entries_[slice]); break;
    case RequestStage::Action::kForbidden:
      DT_CHECK(false, "key {} slice {}: event {} is not allowed in this state", at(slice).key, at(slice).part,
               static_cast<int>(event));
      break;
    case RequestStage::Action::kKeep:
    case RequestStage::Action::kNothing: break;
  }
}

void SliceRequests::serve() {
  name_thread("send");
  const MutexLock lock(mutex_);
  while (true) {
    to_send_.wait(mutex_, [this]() DT_REQUIRES(mutex_) { return is_closing_ || !queue_.empty(); });
    if (is_closing_) return;
    send_next();
  }
}

void SliceRequests::send_next() {
  const size_t slice = queue_.front();
  queue_.pop_front();
  if (why_not() == nullptr) on(slice, RequestStage::Event::kTake);
}

void SliceRequests::send_now(size_t slice) {
  const SliceRequest& request = entries_[slice].request;
  in_use_++;
  Result<> sent;
  {
    const MutexUnlock unlocked(mutex_);
    sent = send_messages(slice, request);
  }
  end_use();
  if (!sent) fail_all(std::move(sent.error()));
  on(slice, RequestStage::Event::kSent);
}

template <class Send>
void SliceRequests::each_message(const SliceRequest& request, bool checksums, const Send& send) {
  for (uint32_t slot = 0; slot < request.state.size(); slot++) {
    auto of_slot = std::get<ControlRequest>(request.head);
    of_slot.what = AssignState{slot};
    send(make_message(of_slot, request.state[slot], nullptr, checksums));
  }
  send(make_message(request.head, request.values, nullptr, checksums));
}

Result<> SliceRequests::send_messages(size_t slice, const SliceRequest& request) {
  Pipe& pipe = *pipes_[at(slice).server];
  TrafficCounts& traffic = traffic_[at(slice).server];
  telemetry::Span span(options_.timeline, name_of_request(request.head), "wire");
  span.with("key", at(slice).key).with("slice", at(slice).part).with("bytes", request.values.size_bytes());
  span.arrow(telemetry::ArrowPoint::kBegin, telemetry::arrow_of_request(options_.rank, number_of(request.head)));
  return catching(
      [&]() -> Result<> {
        each_message(request, pipe.needs_checksums(), [&](Message message) {
          traffic.sent += message.payload.size();
          traffic.sent_messages++;
          pipe.send(std::move(message));
        });
        return {};
      },
      "a request to a server");
}

void SliceRequests::end_use() {
  if (--in_use_ == 0 && why_not() != nullptr) changed_.notify_all();
}

// Sends the unanswered requests to this server again. That is safe: the server adds each gradient only once, and
// answers a repeated request too.
void SliceRequests::on_reconnected(uint32_t server) {
  const MutexLock lock(mutex_);
  if (why_not() != nullptr) return;
  for (size_t slice = 0; slice < entries_.size(); slice++) {
    if (at(slice).server == server) on(slice, RequestStage::Event::kRepeat);
  }
}

void SliceRequests::send_again(size_t slice) {
  const std::string what = fmt::format("a message for key {} slice {} between worker {} and server {} was corrupted",
                                       at(slice).key, at(slice).part, options_.rank, at(slice).server);
  bool is_logged = false;
  {
    const MutexLock lock(mutex_);
    if (++entries_[slice].damaged == kDamagedMax) {
      return fail_all({Code::kPeerLost, fmt::format("{} {} times in a row", what, kDamagedMax), {}});
    }
    is_logged = damaged_++ % kDamagedPerLine == 0;
    on(slice, RequestStage::Event::kRepeat);
  }
  if (is_logged)
    options_.log.warn("{}; it is sent again (only 1 of {} such messages is logged)", what, kDamagedPerLine);
}

// The following functions handle answers.

std::optional<SliceRequests::AnswerHead> SliceRequests::answer_head(const Head& head) {
  if (const auto* header = std::get_if<Header>(&head)) {
    if (header->kind != Kind::kAnswer) return std::nullopt;
    return AnswerHead{header->request, header->status, header->payload_crc, header->encoding};
  }
  const auto* control = std::get_if<ControlAnswer>(&head);
  if (control == nullptr) return std::nullopt;
  return AnswerHead{control->request, control->status, control->payload_crc};
}

bool SliceRequests::is_expected(const Entry& entry, const Head& answer) const {
  const Head& request = entry.request.head;
  return entry.stage.waits() && why_not() == nullptr && answer_head(answer)->request == number_of(request) &&
         std::holds_alternative<Header>(answer) == std::holds_alternative<Header>(request);
}

void SliceRequests::on_message(uint32_t server, const Head& head, Pieces payload) {
  if (server < traffic_.size()) {
    traffic_[server].received += byte_count(payload);
    traffic_[server].received_messages++;
  }
  const std::optional<AnswerHead> answer = answer_head(head);
  const auto found = slice_by_id_.find(slice_of(head));
  if (!answer || found == slice_by_id_.end() || at(found->second).server != server) return;
  const size_t slice = found->second;
  telemetry::Span span(options_.timeline, "take an answer", "wire");
  span.with("key", at(slice).key).with("slice", at(slice).part).with("bytes", byte_count(payload));
  span.arrow(telemetry::ArrowPoint::kEnd, telemetry::arrow_of_request(options_.rank, answer->request));
  std::span<float> into;
  {
    const MutexLock lock(mutex_);
    const Entry& entry = entries_[slice];
    if (!is_expected(entry, head)) return;
    const bool is_corrupt = answer->status == Status::kCorrupt;
    std::optional<Error> why = is_corrupt ? std::nullopt : objection(slice, entry.request, *answer, payload);
    if (why) return fail_all(std::move(*why));
    into = entry.request.into;
    in_use_++;
  }
  // The values are checked and copied without the lock, so that answers for other slices are written at the same time.
  // No other thread accesses this slice's values: it has an open request, and messages of one slice arrive one at a
  // time.
  const bool is_intact = answer->status != Status::kCorrupt && payload_intact(answer->payload_crc, payload);
  if (is_intact && !into.empty()) copy_floats(payload, into);
  span.end();  // before the answer counts, because the thread that waits for it may then end the recording
  {
    const MutexLock lock(mutex_);
    end_use();
    if (is_intact) {
      entries_[slice].answer_head = head;
      on(slice, RequestStage::Event::kAnswer);
    }
  }
  if (!is_intact) send_again(slice);
}

void SliceRequests::close_request(Entry& entry) {
  entry.damaged = 0;
  if (const auto* control = std::get_if<ControlAnswer>(&entry.answer_head)) {
    entry.answer.counters = control->counters;
  } else {
    const auto& header = std::get<Header>(entry.answer_head);
    entry.answer.samples = header.samples;
    entry.answer.step = header.step;
    entry.answer.samples_applied = header.samples_applied;
  }
  if (--open_[entry.request.group] == 0) changed_.notify_all();
}

SliceAnswer SliceRequests::answer(size_t slice) const {
  const MutexLock lock(mutex_);
  return entries_[slice].answer;
}

// The following functions handle failures.

std::optional<Error> SliceRequests::objection(size_t slice, const SliceRequest& request, const AnswerHead& answer,
                                              Pieces payload) const {
  if (answer.status != Status::kOk && answer.status != Status::kDuplicate) {
    return refusal(slice, request, answer.status);
  }
  const size_t bytes = request.into.size_bytes();
  if (answer.encoding == Encoding::kFloat32 && byte_count(payload) == bytes) return std::nullopt;
  return Error{Code::kInternal,
               fmt::format("server {} sent {} bytes for key {} slice {}, which has {} bytes", at(slice).server,
                           byte_count(payload), at(slice).key, at(slice).part, bytes),
               {}};
}

Error SliceRequests::refusal(size_t slice, const SliceRequest& request, Status status) const {
  const auto* header = std::get_if<Header>(&request.head);
  const std::string step = header == nullptr ? "" : fmt::format(" step {}", header->step);
  const std::string what = fmt::format("server {} refused the request for key {} slice {}{} from worker {}",
                                       at(slice).server, at(slice).key, at(slice).part, step, options_.rank);
  switch (status) {
    case Status::kStaleIncarnation:
      return {Code::kPeerLost, what + ": this process no longer has its rank in the job", {}};
    case Status::kUnknownKey: return {Code::kUsage, what + ": the key was never initialised", {}};
    case Status::kBadSize: return {Code::kUsage, what + ": the slice has a different size on the server", {}};
    case Status::kNonFinite: return {Code::kInternal, what + ": the sum of the gradients is not finite", {}};
    default: return {Code::kInternal, what + ": the request violates the protocol", {}};
  }
}

void SliceRequests::fail_all(Error error) {
  if (!error_) error_ = std::move(error);
  changed_.notify_all();
}

void SliceRequests::cancel(Error error) {
  const MutexLock lock(mutex_);
  fail_all(std::move(error));
}

void SliceRequests::break_up(Error why) {
  const MutexLock lock(mutex_);
  if (!broken_) broken_ = std::move(why);
  lacks_server_ = true;
  changed_.notify_all();
}

void SliceRequests::mend() {
  const MutexLock lock(mutex_);
  lacks_server_ = false;
}

bool SliceRequests::is_broken() const {
  const MutexLock lock(mutex_);
  return broken_.has_value() && !error_;
}

void SliceRequests::forget() {
  const MutexLock lock(mutex_);
  changed_.wait(mutex_, [this]() DT_REQUIRES(mutex_) { return in_use_ == 0; });
  queue_.clear();
  for (Entry& entry : entries_) {
    entry.stage = RequestStage();
    entry.damaged = 0;
  }
  std::ranges::fill(open_, 0);
  if (!lacks_server_) broken_.reset();
}

// The following functions wait for answers.

std::string SliceRequests::describe_open(const char* what, size_t first, size_t end) const {
  const MutexLock lock(mutex_);
  const auto waits = [&](const Entry& entry) {
    return entry.stage.is_open() && entry.request.group >= first && entry.request.group < end;
  };
  const auto first_open = std::ranges::find_if(entries_, waits);
  // All answers have arrived, but the waiting thread has not woken up yet.
  if (first_open == entries_.end()) return fmt::format("{}, which have just arrived", what);
  const auto others = std::count_if(first_open, entries_.end(), waits) - 1;
  const Slice& slice = at(static_cast<size_t>(first_open - entries_.begin()));
  return fmt::format("{}: key {} slice {} version {} on server {}{}", what, slice.key, slice.part,
                     wanted_version(first_open->request.head), slice.server,
                     others > 0 ? fmt::format(" and {} more", others) : "");
}

Result<> SliceRequests::wait(const char* what, size_t first, size_t end) {
  const auto is_answered = [&]() DT_REQUIRES(mutex_) {
    return std::all_of(open_.begin() + static_cast<ptrdiff_t>(first), open_.begin() + static_cast<ptrdiff_t>(end),
                       [](size_t open) { return open == 0; });
  };
  const auto is_over = [&]() DT_REQUIRES(mutex_) { return why_not() != nullptr ? in_use_ == 0 : is_answered(); };
  {
    const MutexLock lock(mutex_);
    while (why_not() == nullptr && !is_answered() && !queue_.empty()) send_next();
    if (!error_ && is_answered()) return {};
  }
  // Created before the lock is taken: a thread that lists the open waits calls describe_open, which takes the lock.
  const telemetry::Span span(options_.timeline, "wait for answers", "wait");
  const auto describe = [this, what, first, end] { return describe_open(what, first, end); };
  const Waits::Wait wait(waits_, describe);
  const MutexLock lock(mutex_);
  changed_.wait(mutex_, is_over);
  wait_s_ += wait.seconds();
  if (error_) return tl::unexpected(*error_);
  return is_answered() ? Result<>() : tl::unexpected(*broken_);
}

RequestCounts SliceRequests::counts() const {
  const MutexLock lock(mutex_);
  return {.open = std::accumulate(open_.begin(), open_.end(), size_t{0}), .unsent = queue_.size()};
}

std::vector<Traffic> SliceRequests::traffic() const {
  std::vector<Traffic> by_server;
  for (const TrafficCounts& counts : traffic_) {
    by_server.push_back({.sent = counts.sent,
                         .received = counts.received,
                         .sent_messages = counts.sent_messages,
                         .received_messages = counts.received_messages});
  }
  return by_server;
}

StoreTimes SliceRequests::times() const {
  Traffic all;
  for (const TrafficCounts& counts : traffic_) {
    all.sent += counts.sent;
    all.received += counts.received;
    all.sent_messages += counts.sent_messages;
    all.received_messages += counts.received_messages;
  }
  const MutexLock lock(mutex_);
  return {.wait_s = wait_s_, .traffic = all};
}

}  // namespace dtrain::kvstore
