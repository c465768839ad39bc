// A worker's requests to its servers: numbers them, sends them, receives their answers, and waits for these. Every
// request concerns one slice. The store decides what is requested and what the values mean (dist_store.h).
//
// A thread of this object sends the requests, so that a device that hands over a gradient can continue computing at
// once. Waking that thread takes time, so a caller without other work and a thread that waits for answers also send.
//
// Messages have no owner (Message::owner): values are sent from the caller's memory. They must not change before the
// answer, which a server sends only after it has received them. Answers are written into the caller's memory. The
// pipes' threads must therefore end before this object and the memory are destroyed.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/waits.h"
#include "kvstore/counters.h"
#include "kvstore/store.h"
#include "kvstore/wire/placement.h"
#include "kvstore/wire/transport.h"
#include "kvstore/worker/request_stage.h"
#include "telemetry/timeline.h"

namespace dtrain::kvstore {

struct SliceRequest {
  Head head;                                       // send() fills in the sender, the number and the slice
  std::span<const float> values = {};              // the values that are sent as the payload
  std::vector<std::span<const float>> state = {};  // for AssignValues: one AssignState for each slot, sent before it
  std::span<float> into = {};  // where the answer's values are written; empty if the answer has none
  size_t group = 0;        // the group to which the request belongs; wait() waits for the requests of a range of groups
  bool by_caller = false;  // whether the calling thread sends it, because it has no other work
};

// What the last answer about a slice reported besides its values. A field that an answer lacks keeps its value.
struct SliceAnswer {
  uint32_t samples = 0;                     // samples in the round's gradients; 0: the round was left out
  uint64_t step = 0;                        // the step that begins with these weights
  std::optional<uint64_t> samples_applied;  // samples applied to the slice's values; nullopt: none were received yet
  Counters counters;                        // counters in the answer to a control request
};

struct RequestCounts {
  size_t open = 0;    // requests without an answer
  size_t unsent = 0;  // requests in the queue of the sending thread
};

struct SliceRequestsOptions {
  uint32_t rank = 0;
  uint64_t incarnation = 0;
  std::vector<Slice> placement = {};
  size_t groups = 1;                        // number of groups of requests, numbered from 0
  telemetry::Timeline* timeline = nullptr;  // where messages and waits are recorded; null: not recorded
  Log log = Log::silent();                  // gets lines about slices that were damaged in transit
};

// Slices are identified by their index in the placement. The caller makes at most one request about a slice at a time.
// Thread-safe.
class SliceRequests final : public ClientEvents {
 public:
  // `waits` must outlive this object.
  SliceRequests(SliceRequestsOptions options, Waits& waits);
  ~SliceRequests() override;
  // Must be called once, before the first request. One pipe per server, sorted by rank.
  void attach(std::vector<std::shared_ptr<Pipe>> pipes);
  [[nodiscard]] bool is_attached() const { return !pipes_.empty(); }

  // Returns at once, before the request is sent, unless the request is `by_caller` or has few values.
  //
  // After a failure, send() and wait() return its Error. Once wait() has returned it, no thread reads or writes the
  // memory of any request.
  Result<> send(size_t slice, SliceRequest request) DT_EXCLUDES(mutex_);
  // Waits until all requests of the groups in [first, end) are answered. `what` names the wait.
  Result<> wait(const char* what, size_t first, size_t end) DT_EXCLUDES(mutex_);
  [[nodiscard]] SliceAnswer answer(size_t slice) const DT_EXCLUDES(mutex_);
  // How long wait() has waited, and the traffic with all servers.
  [[nodiscard]] StoreTimes times() const DT_EXCLUDES(mutex_);
  [[nodiscard]] RequestCounts counts() const DT_EXCLUDES(mutex_);
  // The traffic with each server. Takes no lock.
  [[nodiscard]] std::vector<Traffic> traffic() const;
  // Makes send() and wait() return `error`, now and in the future. Of several errors, the first one is kept.
  void cancel(Error error) DT_EXCLUDES(mutex_);
  // The same until mend() and forget() have both been called.
  void break_up(Error why) DT_EXCLUDES(mutex_);
  void mend() DT_EXCLUDES(mutex_);
  [[nodiscard]] bool is_broken() const DT_EXCLUDES(mutex_);
  // Forgets all requests. Those that were not answered are not sent again, and their answers do not count. To be called
  // while no thread calls send() or wait(). When it returns, no thread reads or writes the memory of any request.
  void forget() DT_EXCLUDES(mutex_);

  void on_message(uint32_t server, const Head& head, Pieces payload) override;
  void on_reconnected(uint32_t server) override;

 private:
  struct Entry {
    SliceRequest request;  // the last request
    RequestStage stage;    // stage of `request`
    Head answer_head;      // head of the last answer
    int damaged = 0;       // how often the request or its answer arrived with a wrong checksum
    SliceAnswer answer;
  };
  // The traffic with one server.
  struct TrafficCounts {
    std::atomic<uint64_t> sent = 0, received = 0, sent_messages = 0, received_messages = 0;
  };
  // What an answer reports besides its values.
  struct AnswerHead {
    uint64_t request = 0;
    Status status = Status::kOk;
    uint32_t payload_crc = 0;
    Encoding encoding = Encoding::kFloat32;
  };
  static std::optional<AnswerHead> answer_head(const Head& head);  // nullopt for a request, which no server sends

  [[nodiscard]] const Slice& at(size_t slice) const { return options_.placement[slice]; }
  // Fills in the sender, the request's number and the slice.
  void address(Head& head, const Slice& slice) DT_REQUIRES(mutex_);
  // Calls send(message) for each message of a request, in order. Computes their checksums if `checksums` is true.
  template <class Send>
  static void each_message(const SliceRequest& request, bool checksums, const Send& send);
  // Gives the event to the slice's request and carries out the action that follows.
  void on(size_t slice, RequestStage::Event event) DT_REQUIRES(mutex_);
  void serve() DT_EXCLUDES(mutex_);
  // send_next and send_now release the mutex while they send.
  void send_next() DT_REQUIRES(mutex_);  // sends the request about the first slice in the queue
  void send_now(size_t slice) DT_REQUIRES(mutex_);
  Result<> send_messages(size_t slice, const SliceRequest& request) DT_EXCLUDES(mutex_);
  // To be called after the memory of a request has been read or written without the lock.
  void end_use() DT_REQUIRES(mutex_);
  // Whether the answer is the one that the slice's request waits for, and not a repeat.
  [[nodiscard]] bool is_expected(const Entry& entry, const Head& answer) const DT_REQUIRES(mutex_);
  // Why the values of an answer cannot be used; nullopt if they can.
  [[nodiscard]] std::optional<Error> objection(size_t slice, const SliceRequest& request, const AnswerHead& answer,
                                               Pieces payload) const;
  [[nodiscard]] Error refusal(size_t slice, const SliceRequest& request, Status status) const;
  // To be called after the request or its answer has arrived with a wrong checksum. Sends the request again, or fails
  // if that has happened too often.
  void send_again(size_t slice) DT_EXCLUDES(mutex_);
  void close_request(Entry& entry) DT_REQUIRES(mutex_);
  // Describes a wait for `what` by the missing answers of these groups: "weights: key 3 slice 0 version 17 on server 1
  // and 4 more".
  [[nodiscard]] std::string describe_open(const char* what, size_t first, size_t end) const DT_EXCLUDES(mutex_);
  void fail_all(Error error) DT_REQUIRES(mutex_);
  // Why no request can be completed; null: there is no reason.
  [[nodiscard]] const Error* why_not() const DT_REQUIRES(mutex_) {
    if (error_) return &*error_;
    return broken_ ? &*broken_ : nullptr;
  }

  const SliceRequestsOptions options_;
  const std::map<SliceId, size_t> slice_by_id_;
  Waits& waits_;
  std::vector<std::shared_ptr<Pipe>> pipes_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  ConditionVariable to_send_;
  std::deque<size_t> queue_ DT_GUARDED_BY(mutex_);  // slices with a request to send
  bool is_closing_ DT_GUARDED_BY(mutex_) = false;
  std::vector<Entry> entries_ DT_GUARDED_BY(mutex_);  // the request about each slice, indexed by slice
  uint64_t request_count_ DT_GUARDED_BY(mutex_) = 0;
  std::vector<size_t> open_ DT_GUARDED_BY(mutex_);     // for each group: number of requests without an answer
  std::optional<Error> error_ DT_GUARDED_BY(mutex_);   // the first error with which the store failed
  std::optional<Error> broken_ DT_GUARDED_BY(mutex_);  // as in break_up()
  bool lacks_server_ DT_GUARDED_BY(mutex_) = false;    // whether mend() was not called since
  uint64_t damaged_ DT_GUARDED_BY(mutex_) = 0;         // messages that arrived with a wrong checksum
  size_t in_use_ DT_GUARDED_BY(mutex_) = 0;            // number of threads that read or write the memory of a request
  double wait_s_ DT_GUARDED_BY(mutex_) = 0;
  std::vector<TrafficCounts> traffic_;  // the traffic with each server, indexed by server
  std::thread sender_;
};

}  // namespace dtrain::kvstore
