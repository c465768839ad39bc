// Requests that arrive twice or late, and those of an older incarnation. A request is known by the worker's incarnation
// and its number, whatever its kind.
#include <functional>
#include <utility>
#include <vector>

#include "base/random.h"
#include "kvstore/conversation.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::kvstore;
using namespace dtrain::test;

namespace {

const std::vector<float> kFours(4, 4);

ShardOptions repeating_options(const sync::Policy& policy) {
  ShardOptions options = options_for(policy);
  options.rule.optimizer.momentum = 0.5;  // one array of state
  options.deterministic = true;
  return options;
}

// What a slice holds, as its workers can ask.
struct Contents {
  std::vector<float> weights, state;
  Counters counters;
  uint64_t updates = 0, pushes = 0, rates_set = 0;
  bool operator==(const Contents& other) const {
    return weights == other.weights && state == other.state && counters.samples == other.counters.samples &&
           counters.updates == other.counters.updates && updates == other.updates && pushes == other.pushes &&
           rates_set == other.rates_set;
  }
};

// A conversation in which copies of all earlier requests may come again at any time.
class Disturbed {
 public:
  // `share` of the requests are followed by a copy of a random earlier one.
  Disturbed(double share, uint64_t seed) : share_(share), random_(seed, Use::kTest) {
    options_ = repeating_options(sync::gsp({0, 0, 1}));
    options_.on_rate = [this](const RateChange&, uint64_t) { rates_set_++; };
    talk_ = std::make_unique<Conversation>(options_);
  }

  template <class What>
  void control(const What& what, const std::vector<float>& values = {}) {
    const uint64_t number =
        std::holds_alternative<AssignState>(ControlRequest{.what = what}.what) ? number_ + 1 : ++number_;
    send([this, what, values, number] { talk_->control(0, 0, number, what, values); });
  }
  void data(Kind kind, uint32_t rank, uint64_t step, const std::vector<float>& values = {}) {
    Header header = Conversation::header(kind, rank, 0, step, 2);
    header.request = ++number_;  // the numbers of a worker have gaps
    send([this, header, values] { talk_->send(header, values); });
  }
  // The answers to the worker's requests since the last call.
  std::vector<Peer::Received> answers(uint32_t rank) {
    std::deque<Peer::Received>& inbox = talk_->peers[rank]->inbox;
    std::vector<Peer::Received> all(inbox.begin(), inbox.end());
    inbox.clear();
    return all;
  }
  Contents contents(uint64_t next_step) {
    Contents contents;
    for (uint32_t rank = 0; rank < 3; rank++) answers(rank);
    talk_->control(1, 0, ++number_, PullState{0});
    contents.state = talk_->peers[1]->take().values;
    talk_->control(1, 0, ++number_, PullCounters{});
    contents.counters = talk_->peers[1]->take().control.counters;
    talk_->pull(1, 0, next_step);
    contents.weights = talk_->peers[1]->take().values;
    const ShardCounts counts = talk_->shard->counts();
    contents.updates = counts.updates;
    contents.pushes = counts.pushes;
    contents.rates_set = rates_set_;
    copies_ = counts.duplicates;
    return contents;
  }
  [[nodiscard]] uint64_t copies() const { return copies_; }

 private:
  void send(std::function<void()> request) {
    request();
    sent_.push_back(std::move(request));
    while (random_.uniform(0, 1) < share_)
      sent_[static_cast<size_t>(random_.below(static_cast<int64_t>(sent_.size())))]();
  }

  const double share_;
  RandomStream random_;
  ShardOptions options_;
  std::unique_ptr<Conversation> talk_;
  uint64_t number_ = 0, rates_set_ = 0, copies_ = 0;
  std::vector<std::function<void()>> sent_;
};

// All kinds of requests that change something, for some steps, with values that are drawn from the seed.
Contents train_disturbed(double share, uint64_t seed, uint64_t* copies = nullptr) {
  RandomStream random(seed, Use::kTest, 1);
  Disturbed talk(share, seed);
  talk.control(AssignState{0}, {1, 2, 3, 4});
  talk.control(AssignValues{{.samples = 6, .updates = 3}, 1}, kFours);
  uint64_t step = 3;
  for (int round = 0; round < 8; round++, step++) {
    for (uint32_t rank = 0; rank < 3; rank++) {
      std::vector<float> gradient(4);
      for (float& g : gradient) g = static_cast<float>(random.below(9) - 4);
      talk.data(Kind::kPush, rank, step, gradient);
    }
    for (uint32_t rank = 0; rank < 3; rank++) {
      const std::vector<Peer::Received> answers = talk.answers(rank);
      INFO("seed " << seed << " worker " << rank << " step " << step);
      // Each worker has the weights of its next step, once from its push and again for each copy.
      REQUIRE(std::ranges::any_of(answers, [&](const Peer::Received& a) { return a.header.step == step + 1; }));
    }
    if (random.below(3) == 0) talk.control(SetRate{{random.uniform(0.5, 2), 0}});
    if (random.below(3) == 0) {
      for (uint32_t rank = 0; rank < 3; rank++) talk.data(Kind::kRefresh, rank, step + 1);
    }
  }
  Contents contents = talk.contents(step);
  if (copies != nullptr) *copies = talk.copies();
  return contents;
}

}  // namespace

TEST_CASE("copies of earlier requests change nothing, whatever their kind and however late", "[kvstore]") {
  uint64_t all_copies = 0;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    INFO("seed " << seed);
    uint64_t copies = 0;
    const Contents calm = train_disturbed(0, seed), disturbed = train_disturbed(0.6, seed, &copies);
    REQUIRE(calm == disturbed);
    all_copies += copies;
  }
  CHECK(all_copies > 2'000);
}

// The slice begins anew with step 0, so by its step alone the gradient would belong to the open round.
TEST_CASE("a late copy of a push is not added to a round that begins again", "[kvstore]") {
  Conversation talk(2);
  talk.assign(0, kFours);
  talk.push(1, 0, 0, {7, 7, 7, 7});
  talk.push(0, 0, 0, {1, 1, 1, 1});
  for (const auto& peer : talk.peers) peer->inbox.clear();
  talk.control(0, 0, 1'500, AssignValues{}, kFours);
  CHECK(talk.status_of(0) == Status::kOk);
  talk.push(1, 0, 0, {7, 7, 7, 7});
  Header next = Conversation::header(Kind::kPush, 0, 0, 0, 1);
  next.request = 1'501;
  talk.send(next, {1, 1, 1, 1});
  CHECK(talk.peers[0]->inbox.empty());  // the round still waits for worker 1
  CHECK(talk.shard->counts().pushes == 3);
}

TEST_CASE("another incarnation of a worker numbers its requests anew", "[kvstore]") {
  ShardOptions options = repeating_options(sync::bsp(1));
  Conversation talk(options);
  const auto say = [&](uint64_t incarnation, uint64_t number, const auto& what, const std::vector<float>& values = {}) {
    const ControlRequest head{.id = {0, 0}, .rank = 0, .incarnation = incarnation, .request = number, .what = what};
    Loopback(*talk.shard, talk.peers[0]).send(make_message(head, values, nullptr, true));
  };
  const auto samples = [&] {
    say(777, 50, PullCounters{});
    return talk.peers[0]->take().control.counters.samples;
  };
  say(100, 7, AssignState{0}, kFours);  // its AssignValues never comes
  talk.shard->admit(0, 777);
  say(777, 7, AssignValues{{.samples = 3, .updates = 1}, 1}, kFours);
  CHECK(talk.peers[0]->inbox.empty());  // the state of the old incarnation does not belong to it
  say(777, 7, AssignState{0}, {5, 5, 5, 5});
  say(777, 7, AssignValues{{.samples = 3, .updates = 1}, 1}, kFours);
  CHECK(talk.status_of(0) == Status::kOk);
  CHECK(samples() == 3);
  talk.shard->admit(0, 888);
  say(888, 2, SetRate{{0.5, 0}});
  CHECK(talk.status_of(0) == Status::kOk);
  say(888, 2, SetRate{{0.5, 0}});
  CHECK(talk.status_of(0) == Status::kDuplicate);
  say(777, 8, SetRate{{9, 0}});
  CHECK(talk.status_of(0) == Status::kStaleIncarnation);
}
