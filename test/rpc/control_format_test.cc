#include "rpc/control_format.h"

#include <cstring>
#include <vector>

#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::kvstore;
using namespace dtrain::rpc;

namespace {

std::span<const std::byte> protobuf_of(const std::string& bytes) {
  return std::as_bytes(std::span(bytes)).subspan(sizeof(ControlPrefix));
}

Head there_and_back(const Head& head) {
  const std::string bytes = to_control_bytes(head);
  ControlPrefix prefix;
  std::memcpy(&prefix, bytes.data(), sizeof(prefix));
  CHECK(bytes.starts_with("DTC1"));
  CHECK(prefix.size == bytes.size() - sizeof(prefix));
  return parse_control(protobuf_of(bytes)).value();
}

template <class What>
What request_back(const What& what) {
  const ControlRequest request{
      .id = {70000, 3}, .rank = 100000, .incarnation = ~uint64_t{6}, .request = 12, .what = what, .payload_crc = 99};
  const auto back = std::get<ControlRequest>(there_and_back(request));
  CHECK(back.id == request.id);
  CHECK(back.rank == request.rank);
  CHECK(back.incarnation == request.incarnation);
  CHECK(back.request == request.request);
  CHECK(back.payload_crc == request.payload_crc);
  return std::get<What>(back.what);
}

}  // namespace

TEST_CASE("a control message is read as it was written", "[rpc]") {
  CHECK(request_back(AssignState{.slot = 2}).slot == 2);
  const auto assign =
      request_back(AssignValues{.counters = {.samples = 8, .updates = 9, .rate_factor = 0.3}, .states = 3});
  CHECK(assign.counters.rate_factor == 0.3);
  CHECK(assign.counters.samples == 8);
  CHECK(assign.counters.updates == 9);
  CHECK(assign.states == 3);
  CHECK(request_back(Regroup{{0, 5, 0, 1}}).group_of == std::vector<uint32_t>{0, 5, 0, 1});
  CHECK_FALSE(request_back(Regroup{{0, 5, 0, 1}}).alignment);
  const Regroup::Alignment alignment{.counters = {.samples = 7, .updates = 1ULL << 40, .rate_factor = 0.5},
                                     .leads = {0, 3}};
  const auto aligned = request_back(Regroup{{0, 1}, alignment}).alignment;
  REQUIRE(aligned);
  CHECK(aligned->counters.samples == 7);
  CHECK(aligned->counters.updates == 1ULL << 40);
  CHECK(aligned->counters.rate_factor == 0.5);
  CHECK(aligned->leads == std::vector<uint64_t>{0, 3});
  CHECK(request_back(PullState{.slot = 1}).slot == 1);
  request_back(PullCounters{});
  const RateChange change = request_back(SetRate{{.factor = 0.1, .from_samples = ~uint64_t{8}}}).change;
  CHECK(change.factor == 0.1);
  CHECK(change.from_samples == ~uint64_t{8});
  const auto answer = std::get<ControlAnswer>(there_and_back(ControlAnswer{.id = {1, 2},
                                                                           .request = 3,
                                                                           .status = Status::kRejected,
                                                                           .counters = {.samples = 4, .updates = 5},
                                                                           .payload_crc = 6}));
  CHECK(answer.id == SliceId{1, 2});
  CHECK(answer.request == 3);
  CHECK(answer.status == Status::kRejected);
  CHECK(answer.counters.samples == 4);
  CHECK(answer.counters.updates == 5);
  CHECK(answer.payload_crc == 6);
}

// Flips every bit and cuts at every length: the answer is a message or nothing, never a crash, and a status is known.
TEST_CASE("a control message is validated like untrusted input", "[rpc]") {
  for (const Head& head :
       {Head(ControlRequest{.id = {1, 2}, .rank = 3, .incarnation = 4, .request = 5, .what = Regroup{{0, 1, 1}}}),
        Head(ControlRequest{.id = {1, 2}, .rank = 3, .incarnation = 4, .request = 5, .what = SetRate{{0.1, 240}}}),
        Head(ControlAnswer{.id = {1, 2}, .request = 5, .status = Status::kRejected})}) {
    const std::string good = to_control_bytes(head);
    for (size_t size = sizeof(ControlPrefix); size < good.size(); size++) {
      (void)parse_control(protobuf_of(good.substr(0, size)));
    }
    for (size_t bit = sizeof(ControlPrefix) * 8; bit < good.size() * 8; bit++) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      const std::optional<Head> parsed = parse_control(protobuf_of(bad));
      if (!parsed) continue;
      if (const auto* answer = std::get_if<ControlAnswer>(&*parsed)) CHECK(answer->status <= Status::kCorrupt);
    }
  }
  CHECK_FALSE(parse_control({}).has_value());  // says nothing
}
