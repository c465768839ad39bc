#include "kvstore/wire/message.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::kvstore;

namespace {

std::vector<std::byte> bytes_of(const Header& header) {
  const auto bytes = std::as_bytes(std::span(&header, 1));
  return {bytes.begin(), bytes.end()};
}

Header push_of(uint32_t elements) {
  Header header;
  header.kind = Kind::kPush;
  header.rank = 3;
  header.key = 12;
  header.step = 417;
  header.element_count = elements;
  return header;
}

}  // namespace

TEST_CASE("a header has the documented bytes", "[kvstore]") {
  Header header = push_of(5);
  header.encoding = Encoding::kBfloat16;
  header.status = Status::kBadSize;
  header.incarnation = 0x0102030405060708;
  header.request = 0x1112131415161718;
  header.samples_applied = 0x2122232425262728;
  header.slice = 9;
  header.samples = 64;
  header.payload_crc = 0xe3069283;
  const std::vector<std::byte> bytes = bytes_of(header);
  const auto at = [&](size_t offset) { return std::to_integer<int>(bytes[offset]); };
  CHECK(std::memcmp(bytes.data(), "DTW2", 4) == 0);
  CHECK(at(4) == 1);
  CHECK(at(5) == 2);
  CHECK(at(6) == 4);
  CHECK(at(8) == 3);
  CHECK(at(12) == 5);
  CHECK(at(16) == 0x08);
  CHECK(at(24) == 0x18);
  CHECK(at(32) == 417 % 256);
  CHECK(at(40) == 0x28);
  CHECK(at(48) == 12);
  CHECK(at(52) == 9);
  CHECK(at(56) == 64);
  CHECK(at(60) == 0x83);
}

// Flips every bit and tries every length. Whatever is accepted has sizes that match the received bytes.
TEST_CASE("a header is validated like untrusted input", "[kvstore]") {
  const std::vector<std::byte> good = bytes_of(push_of(5));
  REQUIRE(parse_header(good, 20).has_value());
  int refused = 0;
  for (size_t bit = 0; bit < good.size() * 8; bit++) {
    std::vector<std::byte> bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const auto parsed = parse_header(bad, 20);
    if (!parsed) {
      refused++;
      continue;
    }
    CHECK(parsed->element_count == 5);
    CHECK(parsed->encoding == Encoding::kFloat32);
  }
  // the magic number, most of the kind, the encoding, the status except for its small values, the count
  CHECK(refused >= 32 + 6 + 8 + 13 + 32);
  for (size_t size = 0; size < 200; size++) {
    std::vector<std::byte> other(size);
    std::copy_n(good.begin(), std::min(size, good.size()), other.begin());
    CHECK(parse_header(other, 20).has_value() == (size == sizeof(Header)));
  }
  for (const size_t received : {0u, 16u, 19u, 21u, 24u}) CHECK_FALSE(parse_header(good, received).has_value());
}

TEST_CASE("a pull has no payload, and no payload is larger than the largest slice", "[kvstore]") {
  for (const Kind kind : {Kind::kPull, Kind::kRefresh}) {
    Header pull;
    pull.kind = kind;
    CHECK(parse_header(bytes_of(pull), 0).has_value());
    pull.element_count = 1;
    CHECK_FALSE(parse_header(bytes_of(pull), 4).has_value());
  }
  CHECK(parse_header(bytes_of(push_of(kSliceElementsMax)), kPayloadBytesMax).has_value());
  CHECK_FALSE(parse_header(bytes_of(push_of(kSliceElementsMax + 1)), kPayloadBytesMax + 4).has_value());
}

TEST_CASE("every message names its slice, and every request names its sender", "[kvstore]") {
  Header header = push_of(5);
  header.slice = 2;
  header.incarnation = 77;
  CHECK(slice_of(header) == SliceId{12, 2});
  CHECK(sender_of(header) == Sender{3, 77});
  header.kind = Kind::kAnswer;
  CHECK_FALSE(sender_of(header));
  const ControlRequest request{.id = {4, 5}, .rank = 6, .incarnation = 7, .what = PullCounters{}};
  CHECK(slice_of(request) == SliceId{4, 5});
  CHECK(sender_of(request) == Sender{6, 7});
  const ControlAnswer answer{.id = {8, 9}};
  CHECK(slice_of(answer) == SliceId{8, 9});
  CHECK_FALSE(sender_of(answer));
}

// 37 numbers cut at two places: all pairs of places, between numbers and inside them.
TEST_CASE("floats are read from pieces that are cut anywhere", "[kvstore]") {
  RandomStream random(1, Use::kTest);
  std::vector<float> values(37), before(37);
  for (float& value : values) value = static_cast<float>(random.below(1000));
  for (float& value : before) value = static_cast<float>(random.below(1000));
  const auto bytes = std::as_bytes(std::span(values));
  for (size_t a = 0; a <= bytes.size(); a++) {
    for (size_t b = a; b <= bytes.size(); b++) {
      const std::span<const std::byte> pieces[] = {bytes.first(a), bytes.subspan(a, b - a), bytes.subspan(b)};
      std::vector<float> copied(37), of_gradient(37), sum = before;
      copy_floats(pieces, copied);
      REQUIRE(copy_gradient(pieces, of_gradient));
      REQUIRE(add_gradient(pieces, sum));
      REQUIRE(copied == values);
      REQUIRE(of_gradient == values);
      bool is_sum = true;
      for (size_t i = 0; i < 37; i++) is_sum = is_sum && sum[i] == before[i] + values[i];
      REQUIRE(is_sum);
    }
  }
}

// Every place of the number, so that none of a vector is missed. The largest float32 is finite, its double is not.
TEST_CASE("a gradient with an infinite value or a NaN is noticed, and so is a sum that overflows", "[kvstore]") {
  constexpr float kMax = std::numeric_limits<float>::max();
  const auto is_finite = [](float value, size_t at, float before) {
    std::vector<float> values(37, -1), copied(37), sum(37, 2);
    values[at] = value;
    sum[at] = before;
    const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(values))};
    const bool is_copy_finite = copy_gradient(pieces, copied);
    CHECK(is_copy_finite == std::isfinite(value));
    CHECK(std::memcmp(copied.data(), values.data(), 37 * sizeof(float)) == 0);
    return add_gradient(pieces, sum);
  };
  for (size_t at = 0; at < 37; at++) {
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::signaling_NaN()}) {
      CHECK_FALSE(is_finite(bad, at, 1));
      CHECK_FALSE(is_finite(1, at, bad));
      CHECK_FALSE(is_finite(-bad, at, bad));
    }
    CHECK_FALSE(is_finite(kMax, at, kMax));
    CHECK(is_finite(kMax, at, -kMax));
    CHECK(is_finite(kMax, at, 1));
  }
}

TEST_CASE("pieces of a wrong length fail a check", "[kvstore]") {
  const std::vector<std::byte> bytes(12);
  const std::span<const std::byte> pieces[] = {bytes};
  std::vector<float> two(2), four(4);
  CHECK_THROWS_AS(copy_floats(pieces, two), CheckFailed);
  CHECK_THROWS_AS(add_gradient(pieces, four), CheckFailed);
  const std::span<const std::byte> cut[] = {std::span(bytes).first(11)};
  std::vector<float> three(3);
  CHECK_THROWS_AS(copy_floats(cut, three), CheckFailed);
}

TEST_CASE("a modified payload is detected by its checksum", "[kvstore]") {
  std::vector<float> values(5, 7);
  const auto crc_of = [](const Message& message) { return std::get<Header>(message.head).payload_crc; };
  const Message message = make_message(push_of(0), values, nullptr, true);
  CHECK(std::get<Header>(message.head).element_count == 5);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(values));
  const std::span<const std::byte> pieces[] = {bytes.first(3), bytes.subspan(3)};
  CHECK(byte_count(pieces) == 20);
  CHECK(payload_intact(crc_of(message), pieces));
  bytes[11] ^= std::byte{1};
  CHECK_FALSE(payload_intact(crc_of(message), pieces));
  CHECK(payload_intact(crc_of(make_message(push_of(0), values, nullptr, false)), pieces));  // nothing to compare with
}
