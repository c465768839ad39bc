// A worker's requests to its servers: numbers them, sends them, takes their answers, and waits for these. Every request
// is about one slice. What is asked for and what the values mean is up to the store (dist_store.h).
//
// No message has an owner: values are sent from the caller's memory, where they must not change before the answer, which
// a server sends only after it has received them. Answers are written into the caller's memory. The pipes' threads must
// therefore end before this object and the memory are destroyed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/waits.h"
#include "kvstore/counters.h"
#include "kvstore/wire/placement.h"
#include "kvstore/wire/transport.h"

namespace dtrain::kvstore {

struct SliceRequest {
  Head head;                                       // send() fills in the sender, the number and the slice
  std::span<const float> values = {};              // the payload
  std::vector<std::span<const float>> state = {};  // of AssignValues: sent before it, an AssignState for each slot
  std::span<float> into = {};                      // where the answer's values are written; empty: it has none
  size_t group = 0;                                // wait() waits for the requests of some groups
};

// What the last answer about a slice said besides its values. A field that an answer does not have keeps its value.
struct SliceAnswer {
  uint32_t samples = 0;                     // in the round's gradients; 0: the round was left out
  uint64_t step = 0;                        // that the weights begin
  std::optional<uint64_t> samples_applied;  // to the slice; set by the answers to pushes and refreshes
  Counters counters;                        // of an answer to a control request
};

struct SliceRequestsOptions {
  uint32_t rank = 0;
  uint64_t incarnation = 0;
  std::vector<Slice> placement = {};
  size_t groups = 1;  // of requests; they are numbered from 0
  bool checksums = true;
  Log log = Log::silent();  // names slices that were damaged on their way
};

// Slices are named by their index in the placement. The caller makes at most one request about a slice at a time.
// Thread-safe.
class SliceRequests final : public ClientEvents {
 public:
  // `waits` must outlive this object.
  SliceRequests(SliceRequestsOptions options, Waits& waits);
  // Must be called before the first request. One pipe per server, in order of rank.
  void attach(std::vector<std::shared_ptr<Pipe>> pipes);
  [[nodiscard]] bool is_attached() const { return !pipes_.empty(); }

  // After a failure, send() and wait() return its Error.
  Result<> send(size_t slice, SliceRequest request) DT_EXCLUDES(mutex_);
  // Waits until all requests of the groups from `first` to before `end` are answered. `what` names the wait.
  Result<> wait(const char* what, size_t first, size_t end) DT_EXCLUDES(mutex_);
  [[nodiscard]] SliceAnswer answer(size_t slice) const DT_EXCLUDES(mutex_);
  // How long wait() has waited.
  [[nodiscard]] double wait_s() const DT_EXCLUDES(mutex_);
  // The first error is kept.
  void cancel(Error error) DT_EXCLUDES(mutex_);

  void on_message(uint32_t server, const Head& head, Pieces payload) override;
  void on_reconnected(uint32_t server) override;

 private:
  struct Entry {
    SliceRequest request;  // the last one
    bool waits = false;    // for an answer
    int damaged = 0;       // times that the request or its answer has come with a broken checksum
    SliceAnswer answer;
  };
  // What an answer says besides its values.
  struct AnswerHead {
    uint64_t request = 0;
    Status status = Status::kOk;
    uint32_t payload_crc = 0;
    Encoding encoding = Encoding::kFloat32;
  };
  static std::optional<AnswerHead> answer_head(const Head& head);  // nullopt: a request, which no server sends

  [[nodiscard]] const Slice& at(size_t slice) const { return options_.placement[slice]; }
  // Fills in the sender, the request's number and the slice.
  void address(Head& head, const Slice& slice) DT_REQUIRES(mutex_);
  // Calls send(message) for each message of a request, in order. Computes their checksums.
  template <class Send>
  void each_message(const SliceRequest& request, const Send& send) const;
  void send_messages(size_t slice, const SliceRequest& request);
  // Whether the answer is the one that the slice's request waits for, and not a repeat.
  [[nodiscard]] bool is_expected(const Entry& entry, const Head& answer) const DT_REQUIRES(mutex_);
  // Why the values of an answer cannot be used; nullopt if they can.
  [[nodiscard]] std::optional<Error> objection(size_t slice, const SliceRequest& request, const AnswerHead& answer,
                                               Pieces payload) const;
  [[nodiscard]] Error refusal(size_t slice, const SliceRequest& request, Status status) const;
  // After the request or its answer has come with a broken checksum: sends the request again, or fails if that has
  // happened too often.
  void send_again(size_t slice) DT_EXCLUDES(mutex_);
  void close_request(Entry& entry, const Head& answer) DT_REQUIRES(mutex_);
  [[nodiscard]] std::string describe_open() const DT_EXCLUDES(mutex_);
  void fail_all(Error error) DT_REQUIRES(mutex_);

  const SliceRequestsOptions options_;
  const std::map<SliceId, size_t> slice_by_id_;
  Waits& waits_;
  std::vector<std::shared_ptr<Pipe>> pipes_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Entry> entries_ DT_GUARDED_BY(mutex_);  // by slice
  uint64_t request_count_ DT_GUARDED_BY(mutex_) = 0;
  std::vector<size_t> open_ DT_GUARDED_BY(mutex_);    // by group: its requests without an answer
  std::optional<Error> error_ DT_GUARDED_BY(mutex_);  // the first one
  uint64_t damaged_ DT_GUARDED_BY(mutex_) = 0;        // messages that came with a broken checksum
  double wait_s_ DT_GUARDED_BY(mutex_) = 0;
};

}  // namespace dtrain::kvstore
