// One worker's end of the group in which the workers of a simulated job without servers add up their gradients. It has
// a connection to each other member, and carries out operations in which all members take part, one after the other.
// Messages come and go as values; the job (simulated_members.h) delivers those from one worker to another in order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace dtrain::sync {

struct GroupMessage {
  enum class Kind : uint8_t {
    kGreeting,  // the sender opens its connection
    kPart,      // of an operation
    kClosed,    // the sender has closed its connection
  };
  Kind kind = Kind::kPart;
  uint64_t from = 0, to = 0;     // incarnations
  uint64_t group = 0;            // its number
  uint64_t operation = 0;        // its number in the group
  uint32_t round = 0;            // of the operation
  std::vector<uint64_t> values;  // as in GroupOperation
};

struct GroupOperation {
  enum class Work : uint8_t {
    kSum,      // of the gradients of a bucket
    kAverage,  // of the moving statistics
    kTable,    // all get what each knows of its buckets
    kBucket,   // all get the weights of a bucket from one of them
    kStatistics,
    kAll,  // all get all weights and the statistics from one of them
  };
  Work work = Work::kSum;
  uint32_t bucket = 0;
  uint64_t step = 0;
  size_t giver = 0;                   // its place in the group; only of the last three
  std::vector<uint64_t> values = {};  // what this worker contributes
  [[nodiscard]] bool adds() const { return work == Work::kSum || work == Work::kAverage; }
  [[nodiscard]] bool is_from_one() const { return !adds() && work != Work::kTable; }
};

struct GroupResult {
  GroupOperation operation = {};
  std::vector<std::vector<uint64_t>> values = {};  // of each member; only the giver's if there is one; one sum
};

class GroupEnd {
 public:
  // Closes the connections of the group before, and opens those to these workers, one after the other. `in_parts`:
  // whether each member adds up a part of an array and gives the sum to the others, so that nobody has a sum before all
  // have received each part. Otherwise each member gets all arrays and adds them up.
  void form(uint64_t number, std::vector<uint64_t> members, uint64_t own, bool in_parts) {
    close();
    number_ = number;
    members_ = std::move(members);
    own_ = static_cast<size_t>(std::ranges::find(members_, own) - members_.begin());
    in_parts_ = in_parts;
    state_ = State::kConnecting;
    peer_ = 0;
    has_greeted_ = is_doomed_ = is_begun_ = false;
    operation_ = 0;
    operations_.clear();
    results_.clear();
    inbox_.erase(inbox_.begin(), inbox_.lower_bound(number_));
    proceed();
  }
  // Ends the group. While it is formed, it ends when all connections are open.
  void break_up() { state_ == State::kConnecting ? void(is_doomed_ = true) : close(); }
  void close() {
    if (state_ != State::kConnecting && state_ != State::kUp) return;
    state_ = State::kBroken;
    operations_.clear();
    for (size_t i = 0; i < members_.size(); i++) send(i, {.kind = GroupMessage::Kind::kClosed, .values = {}});
  }
  void begin(GroupOperation operation) {
    operations_.push_back(std::move(operation));
    proceed();
  }
  void hear(const GroupMessage& message) {
    if (message.group < number_ || (message.group == number_ && state_ == State::kBroken)) return;
    inbox_[message.group][message.from].push_back(message);
    if (message.group == number_) proceed();
  }
  // The connection to this worker is not open in time, was refused, or was silent for too long.
  void lose(uint64_t peer) {
    if (state_ == State::kUp || (state_ == State::kConnecting && members_[peer_] == peer)) {
      hear({.kind = GroupMessage::Kind::kClosed, .from = peer, .group = number_, .values = {}});
    }
  }

  [[nodiscard]] bool is_up() const { return state_ == State::kUp; }
  [[nodiscard]] bool is_broken() const { return state_ == State::kBroken; }
  [[nodiscard]] uint64_t number() const { return number_; }
  [[nodiscard]] const std::vector<uint64_t>& members() const { return members_; }
  // The place of the member to which a connection is being opened.
  [[nodiscard]] std::optional<size_t> connects_to() const {
    return state_ == State::kConnecting ? std::optional(peer_) : std::nullopt;
  }
  // The place of the member to which no connection could be opened, once.
  std::optional<size_t> take_unreached() { return std::exchange(unreached_, std::nullopt); }
  // Whether the members have carried out different operations.
  [[nodiscard]] bool is_confused() const { return is_confused_; }

  std::vector<GroupMessage> take_messages() { return std::exchange(messages_, {}); }
  std::vector<GroupResult> take_results() { return std::exchange(results_, {}); }

 private:
  enum class State { kNone, kConnecting, kUp, kBroken };
  using Kind = GroupMessage::Kind;

  void send(size_t to, GroupMessage message) {
    if (to == own_) return;
    message.from = members_[own_];
    message.to = members_[to];
    message.group = number_;
    messages_.push_back(std::move(message));
  }
  std::deque<GroupMessage>& from(size_t member) { return inbox_[number_][members_[member]]; }

  void proceed() {
    if (state_ == State::kConnecting) connect();
    while (state_ == State::kUp && !operations_.empty()) {
      if (!is_begun_) begin_operation();
      if (state_ != State::kUp || !take_round()) return;
    }
  }
  // A connection is open when both ends have asked for it.
  void connect() {
    for (; peer_ < members_.size(); peer_++, has_greeted_ = false) {
      if (peer_ == own_) continue;
      if (!std::exchange(has_greeted_, true)) send(peer_, {.kind = Kind::kGreeting, .values = {}});
      std::deque<GroupMessage>& inbox = from(peer_);
      if (inbox.empty()) return;
      if (inbox.front().kind != Kind::kGreeting) {
        unreached_ = peer_;
        return close();
      }
      inbox.pop_front();
    }
    state_ = State::kUp;
    if (is_doomed_) close();
  }

  void begin_operation() {
    is_begun_ = true;
    operation_++;
    round_ = 0;
    const auto has_closed = [](const auto& entry) {
      return !entry.second.empty() && entry.second.back().kind == Kind::kClosed;
    };
    if (std::ranges::any_of(inbox_[number_], has_closed)) return close();
    const GroupOperation& operation = operations_.front();
    if (!operation.is_from_one() || operation.giver == own_) send_to_all(operation.values);
  }
  void send_to_all(const std::vector<uint64_t>& values) {
    for (size_t i = 0; i < members_.size(); i++) {
      send(i, {.kind = Kind::kPart, .operation = operation_, .round = round_, .values = values});
    }
  }
  [[nodiscard]] bool awaits(size_t member) const {
    const GroupOperation& operation = operations_.front();
    return member != own_ && (!operation.is_from_one() || (member == operation.giver && own_ != operation.giver));
  }
  // Returns whether the messages of a round have been here.
  bool take_round() {
    for (size_t i = 0; i < members_.size(); i++) {
      if (!awaits(i)) continue;
      const std::deque<GroupMessage>& inbox = from(i);
      if (!inbox.empty() && inbox.front().kind == Kind::kClosed) {
        close();
        return false;
      }
    }
    for (size_t i = 0; i < members_.size(); i++) {
      if (awaits(i) && from(i).empty()) return false;
    }
    std::vector<std::vector<uint64_t>> values(members_.size());
    values[own_] = round_ == 0 ? operations_.front().values : sum_;
    for (size_t i = 0; i < members_.size(); i++) {
      if (!awaits(i)) continue;
      const GroupMessage& message = from(i).front();
      is_confused_ = is_confused_ || message.operation != operation_ || message.round != round_;
      values[i] = message.values;
      from(i).pop_front();
    }
    end_round(std::move(values));
    return true;
  }
  void end_round(std::vector<std::vector<uint64_t>> values) {
    const GroupOperation& operation = operations_.front();
    if (operation.adds() && round_ == 0) {
      sum_ = {0};
      for (const std::vector<uint64_t>& one : values) sum_[0] += one[0];
      if (in_parts_) {
        round_ = 1;
        return send_to_all(sum_);
      }
      values = {sum_};
    } else if (operation.adds()) {
      is_confused_ = is_confused_ || std::ranges::any_of(values, [&](const auto& one) { return one != sum_; });
      values = {sum_};
    } else if (operation.is_from_one()) {
      values = {std::move(values[operation.giver])};
    }
    results_.push_back({std::move(operations_.front()), std::move(values)});
    operations_.pop_front();
    is_begun_ = false;
  }

  State state_ = State::kNone;
  uint64_t number_ = 0;
  std::vector<uint64_t> members_;
  size_t own_ = 0;
  bool in_parts_ = false;
  size_t peer_ = 0;           // see connects_to()
  bool has_greeted_ = false;  // this member
  bool is_doomed_ = false;
  std::optional<size_t> unreached_;
  std::map<uint64_t, std::map<uint64_t, std::deque<GroupMessage>>> inbox_;  // by group and sender
  std::deque<GroupOperation> operations_;
  bool is_begun_ = false;  // the first of them
  uint64_t operation_ = 0;
  uint32_t round_ = 0;
  std::vector<uint64_t> sum_;  // of the first round
  bool is_confused_ = false;
  std::vector<GroupMessage> messages_;
  std::vector<GroupResult> results_;
};

}  // namespace dtrain::sync
