#include "rpc/link_state.h"

#include "base/random.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::rpc;
using namespace std::chrono_literals;
using Accepted = LinkState::Accepted;
using Phase = LinkState::Phase;

namespace {

constexpr LinkLimits kLimits{.streams = 2, .retry_first = 100ms, .retry_last = 500ms};

// Opens all streams at `now`, which are accepted.
Accepted open(LinkState& link, LinkState::Time now) {
  REQUIRE(link.open(now));
  CHECK(link.accept() == Accepted::kNotAll);
  return link.accept();
}
// All streams end. Returns the delay until the next attempt.
std::chrono::milliseconds end(LinkState& link, LinkState::Time now, bool has_answered) {
  CHECK_FALSE(link.end(now, has_answered));
  return link.end(now, has_answered).value();
}

}  // namespace

TEST_CASE("a link is open when the server has accepted all of its streams", "[rpc]") {
  LinkState link(kLimits);
  const LinkState::Time start{};
  CHECK(link.due() <= start);
  CHECK(open(link, start) == Accepted::kOpened);
  CHECK(link.phase() == Phase::kOpen);
  CHECK_FALSE(link.open(start));
  CHECK(link.due() == LinkState::Time::max());
}

TEST_CASE("a link whose stream breaks opens all of them again, later each time until the server answers", "[rpc]") {
  LinkState link(kLimits);
  LinkState::Time now{};
  open(link, now);
  CHECK_FALSE(link.end(now, true));
  CHECK(link.phase() == Phase::kBreaking);
  CHECK(link.accept() == Accepted::kNotAll);  // of a stream that is ending
  CHECK(link.end(now, true) == 100ms);
  for (const auto delay : {200ms, 400ms, 500ms, 500ms}) {
    CHECK_FALSE(link.open(now));
    now = link.due();
    CHECK(open(link, now) == Accepted::kReopened);
    CHECK(end(link, now, false) == delay);
  }
  now = link.due();
  open(link, now);
  CHECK(end(link, now, true) == 100ms);
  now = link.due();
  open(link, now);
  link.distrust();  // it has sent messages, and then what is none
  CHECK(end(link, now, true) == 200ms);
}

TEST_CASE("a link that stood is lost from its first break until all its streams are accepted again", "[rpc]") {
  LinkState link(kLimits);
  const LinkState::Time start{};
  REQUIRE(link.open(start));
  end(link, start, false);
  CHECK_FALSE(link.lost_at());  // it never stood: who connects has a limit of its own
  open(link, start + 1h);
  end(link, start + 2h, false);
  CHECK(link.lost_at() == start + 2h);
  REQUIRE(link.open(start + 3h));
  CHECK(link.due() == LinkState::Time::max());
  link.accept();
  CHECK(link.lost_at() == start + 2h);
  CHECK(link.accept() == Accepted::kReopened);
  CHECK_FALSE(link.lost_at());
}

TEST_CASE("a closed link opens nothing and is never lost", "[rpc]") {
  LinkState link(kLimits);
  const LinkState::Time start{};
  open(link, start);
  link.close();
  end(link, start, true);
  CHECK(link.phase() == Phase::kClosed);
  CHECK_FALSE(link.open(start + 1h));
  CHECK_FALSE(link.lost_at());
  CHECK(link.due() == LinkState::Time::max());
}

// Streams are accepted and end at random, and the caller breaks off at random. Counts what stands in plain numbers.
TEST_CASE("a link under random breaks stands exactly while all streams do, and always comes back", "[rpc]") {
  for (uint64_t seed = 0; seed < 300; seed++) {
    RandomStream random(seed, Use::kTest);
    const LinkLimits limits{.streams = 4, .retry_first = 1ms, .retry_last = 4ms};
    LinkState link(limits);
    LinkState::Time now{};
    size_t alive = 0, accepted = 0, opened = 0;
    bool breaking = false;
    for (int i = 0; i < 400; i++) {
      now += 1ms;
      if (link.open(now)) {
        CHECK(alive == 0);
        alive = 4, accepted = 0, breaking = false;
      }
      const int64_t draw = random.below(8);
      if (alive > accepted && draw < 6) {
        accepted++;
        const bool stands = !breaking && accepted == 4;
        const Accepted all = link.accept();
        CHECK((all != Accepted::kNotAll) == stands);
        if (stands) CHECK((all == Accepted::kReopened) == (opened++ > 0));
      } else if (alive > 0 && (breaking || draw == 6)) {
        breaking = true;
        alive--;
        accepted = std::min(accepted, alive);
        CHECK(link.end(now, draw % 2 == 0).has_value() == (alive == 0));
      } else if (alive > 0 && draw == 7) {
        breaking = true;
        link.break_off();
      }
      CHECK((link.phase() == Phase::kOpen) == (alive == 4 && accepted == 4 && !breaking));
    }
    CHECK(opened > 0);
  }
}
