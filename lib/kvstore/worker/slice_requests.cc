#include "kvstore/worker/slice_requests.h"

#include <algorithm>

namespace dtrain::kvstore {
namespace {

// A network card or a memory module that damages a message ten times in a row will not stop doing so.
constexpr int kDamagedMax = 10;
constexpr uint64_t kDamagedPerLine = 100;

uint64_t number_of(const Head& request) {
  if (const auto* header = std::get_if<Header>(&request)) return header->request;
  const auto* control = std::get_if<ControlRequest>(&request);
  return control == nullptr ? 0 : control->request;
}

// The step that the weights begin for which the request waits.
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

}  // namespace

SliceRequests::SliceRequests(SliceRequestsOptions options, Waits& waits)
    : options_(std::move(options)),
      slice_by_id_(index_by_id(options_.placement)),
      waits_(waits),
      entries_(options_.placement.size()),
      open_(options_.groups, 0) {}

void SliceRequests::attach(std::vector<std::shared_ptr<Pipe>> pipes) {
  for (const Slice& slice : options_.placement) {
    DT_CHECK(slice.server < pipes.size(), "server {} of {}", slice.server, pipes.size());
  }
  pipes_ = std::move(pipes);
}

// Requests.

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
  const SliceRequest* begun = nullptr;
  {
    const MutexLock lock(mutex_);
    if (error_) return tl::unexpected(*error_);
    Entry& entry = entries_[slice];
    DT_CHECK(!entry.waits, "key {} slice {} still waits for an answer", at(slice).key, at(slice).part);
    address(request.head, at(slice));
    entry.request = std::move(request);
    entry.waits = true;
    open_[entry.request.group]++;
    begun = &entry.request;
  }
  send_messages(slice, *begun);
  return {};
}

template <class Send>
void SliceRequests::each_message(const SliceRequest& request, const Send& send) const {
  for (uint32_t slot = 0; slot < request.state.size(); slot++) {
    auto of_slot = std::get<ControlRequest>(request.head);
    of_slot.what = AssignState{slot};
    send(make_message(of_slot, request.state[slot], nullptr, options_.checksums));
  }
  send(make_message(request.head, request.values, nullptr, options_.checksums));
}

void SliceRequests::send_messages(size_t slice, const SliceRequest& request) {
  Pipe& pipe = *pipes_[at(slice).server];
  each_message(request, [&](Message message) { pipe.send(std::move(message)); });
}

// Requests may be repeated: the server does not add a gradient twice, and answers again.
void SliceRequests::on_reconnected(uint32_t server) {
  std::vector<Message> unanswered;
  {
    const MutexLock lock(mutex_);
    if (error_) return;
    for (size_t slice = 0; slice < entries_.size(); slice++) {
      if (at(slice).server != server || !entries_[slice].waits) continue;
      each_message(entries_[slice].request, [&](Message message) { unanswered.push_back(std::move(message)); });
    }
  }
  for (Message& message : unanswered) pipes_[server]->send(std::move(message));
}

void SliceRequests::send_again(size_t slice) {
  const std::string what = fmt::format("key {} slice {} was damaged on its way between worker {} and server {}",
                                       at(slice).key, at(slice).part, options_.rank, at(slice).server);
  bool is_logged = false;
  const SliceRequest* request = nullptr;
  {
    const MutexLock lock(mutex_);
    Entry& entry = entries_[slice];
    if (++entry.damaged == kDamagedMax) {
      return fail_all({Code::kPeerLost, fmt::format("{} {} times in a row", what, kDamagedMax), {}});
    }
    is_logged = damaged_++ % kDamagedPerLine == 0;
    request = &entry.request;
  }
  if (is_logged) options_.log.warn("{}; it is sent again (one line in {} such messages)", what, kDamagedPerLine);
  send_messages(slice, *request);
}

// Answers.

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
  return entry.waits && !error_ && answer_head(answer)->request == number_of(request) &&
         std::holds_alternative<Header>(answer) == std::holds_alternative<Header>(request);
}

void SliceRequests::on_message(uint32_t server, const Head& head, Pieces payload) {
  const std::optional<AnswerHead> answer = answer_head(head);
  const auto found = slice_by_id_.find(slice_of(head));
  if (!answer || found == slice_by_id_.end() || at(found->second).server != server) return;
  const size_t slice = found->second;
  std::span<float> into;
  {
    const MutexLock lock(mutex_);
    const Entry& entry = entries_[slice];
    if (!is_expected(entry, head)) return;
    const bool is_corrupt = answer->status == Status::kCorrupt;
    std::optional<Error> why = is_corrupt ? std::nullopt : objection(slice, entry.request, *answer, payload);
    if (why) return fail_all(std::move(*why));
    into = entry.request.into;
  }
  if (answer->status == Status::kCorrupt) return send_again(slice);
  // Without the lock, so that answers for other slices are written at the same time. Nobody else touches this slice's
  // values: it has an open request, and messages of one slice come one at a time.
  if (!payload_intact(answer->payload_crc, payload)) return send_again(slice);
  if (!into.empty()) copy_floats(payload, into);
  const MutexLock lock(mutex_);
  close_request(entries_[slice], head);
}

void SliceRequests::close_request(Entry& entry, const Head& answer) {
  entry.waits = false;
  entry.damaged = 0;
  if (const auto* control = std::get_if<ControlAnswer>(&answer)) {
    entry.answer.counters = control->counters;
  } else {
    const auto& header = std::get<Header>(answer);
    const bool is_pull = std::get<Header>(entry.request.head).kind == Kind::kPull;
    entry.answer.samples = header.samples;
    entry.answer.step = header.step;
    if (!is_pull) entry.answer.samples_applied = header.samples_applied;
  }
  if (--open_[entry.request.group] == 0) changed_.notify_all();
}

SliceAnswer SliceRequests::answer(size_t slice) const {
  const MutexLock lock(mutex_);
  return entries_[slice].answer;
}

// Failures.

std::optional<Error> SliceRequests::objection(size_t slice, const SliceRequest& request, const AnswerHead& answer,
                                              Pieces payload) const {
  if (answer.status != Status::kOk && answer.status != Status::kDuplicate) {
    return refusal(slice, request, answer.status);
  }
  const size_t bytes = request.into.size_bytes();
  if (answer.encoding == Encoding::kFloat32 && byte_count(payload) == bytes) return std::nullopt;
  return Error{Code::kInternal,
               fmt::format("server {} sends {} bytes for key {} slice {}, which has {}", at(slice).server,
                           byte_count(payload), at(slice).key, at(slice).part, bytes),
               {}};
}

Error SliceRequests::refusal(size_t slice, const SliceRequest& request, Status status) const {
  const auto* header = std::get_if<Header>(&request.head);
  const std::string step = header == nullptr ? "" : fmt::format(" step {}", header->step);
  const std::string what = fmt::format("server {} refuses key {} slice {}{} of worker {}", at(slice).server,
                                       at(slice).key, at(slice).part, step, options_.rank);
  switch (status) {
    case Status::kStaleIncarnation: return {Code::kUsage, what + ": another process has taken over this rank", {}};
    case Status::kUnknownKey: return {Code::kUsage, what + ": the key was never initialised", {}};
    case Status::kBadSize: return {Code::kUsage, what + ": its size is another one there", {}};
    case Status::kNonFinite: return {Code::kInternal, what + ": the sum of the gradients is not finite", {}};
    default: return {Code::kInternal, what + ": it is against the protocol", {}};
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

// Waits.

std::string SliceRequests::describe_open() const {
  const MutexLock lock(mutex_);
  const auto waits = [](const Entry& entry) { return entry.waits; };
  const auto first = std::ranges::find_if(entries_, waits);
  if (first == entries_.end()) return "nothing";
  const auto others = std::count_if(first, entries_.end(), waits) - 1;
  const Slice& slice = at(static_cast<size_t>(first - entries_.begin()));
  return fmt::format("key {} slice {} version {} on server {}{}", slice.key, slice.part,
                     wanted_version(first->request.head), slice.server,
                     others > 0 ? fmt::format(" and {} more", others) : "");
}

Result<> SliceRequests::wait(const char* what, size_t first, size_t end) {
  const auto is_answered = [&]() DT_REQUIRES(mutex_) {
    return std::all_of(open_.begin() + static_cast<ptrdiff_t>(first), open_.begin() + static_cast<ptrdiff_t>(end),
                       [](size_t open) { return open == 0; });
  };
  {
    const MutexLock lock(mutex_);
    if (error_) return tl::unexpected(*error_);
    if (is_answered()) return {};
  }
  // Created before the lock is taken: a thread that lists the open waits calls describe_open, which takes the lock.
  const auto describe = [this, what] { return fmt::format("{}: {}", what, describe_open()); };
  const Waits::Wait wait(waits_, describe);
  const MutexLock lock(mutex_);
  changed_.wait(mutex_, [&]() DT_REQUIRES(mutex_) { return error_ || is_answered(); });
  wait_s_ += wait.seconds();
  if (error_) return tl::unexpected(*error_);
  return {};
}

double SliceRequests::wait_s() const {
  const MutexLock lock(mutex_);
  return wait_s_;
}

}  // namespace dtrain::kvstore
