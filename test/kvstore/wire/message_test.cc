#include "kvstore/wire/message.h"

#include <catch2/catch.hpp>
#include <vector>

#include "base/error.h"
#include "base/random.h"

using namespace dtrain;
using namespace dtrain::kvstore;

namespace {

std::vector<std::byte> bytes_of(const Header& header) {
  const auto bytes = std::as_bytes(std::span(&header, 1));
  return {bytes.begin(), bytes.end()};
}

Header push_of(uint32_t elements) {
  Header header;
  header.kind = Kind::kPushPull;
  header.rank = 3;
  header.key = 12;
  header.step = 417;
  header.version = 418;
  header.element_count = elements;
  header.payload_bytes = elements * 4;
  return header;
}

}  // namespace

TEST_CASE("a header has the documented bytes", "[kvstore]") {
  Header header = push_of(5);
  header.status = Status::kBadSize;
  header.membership_epoch = 0x1122;
  header.first_element = 0x33445566;
  header.incarnation = 0x0102030405060708;
  header.slice = 9;
  header.samples = 64;
  header.payload_crc = 0xe3069283;
  const std::vector<std::byte> bytes = bytes_of(header);
  const auto at = [&](size_t offset) { return std::to_integer<int>(bytes[offset]); };
  CHECK(std::memcmp(bytes.data(), "DTW1", 4) == 0);
  CHECK(at(4) == 3);
  CHECK(at(5) == 0);
  CHECK(at(6) == 4);
  CHECK(at(8) == 3);
  CHECK(at(10) == 0x22);
  CHECK(at(12) == 0x66);
  CHECK(at(16) == 8);
  CHECK(at(24) == 417 % 256);
  CHECK(at(32) == 418 % 256);
  CHECK(at(40) == 12);
  CHECK(at(44) == 9);
  CHECK(at(48) == 5);
  CHECK(at(52) == 64);
  CHECK(at(56) == 20);
  CHECK(at(60) == 0x83);
}

// Flips every bit and tries every length. Whatever is accepted has sizes that match the received bytes.
TEST_CASE("a header is parsed as hostile", "[kvstore]") {
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
    const bool has_values = parsed->payload_bytes == 20 && parsed->element_count == 5;
    CHECK((has_values && uint64_t{parsed->first_element} + parsed->element_count <= UINT32_MAX));
  }
  // the magic number, most of the kind and the encoding, the status except for its small values, both sizes
  CHECK(refused >= 32 + 5 + 7 + 14 + 32 + 32);
  for (size_t size = 0; size < 200; size++) {
    std::vector<std::byte> other(size);
    std::copy_n(good.begin(), std::min(size, good.size()), other.begin());
    CHECK(parse_header(other, 20).has_value() == (size == sizeof(Header)));
  }
  for (const size_t received : {0u, 16u, 19u, 21u, 24u}) CHECK_FALSE(parse_header(good, received).has_value());
}

TEST_CASE("a pull has no payload, and a payload no end beyond 32 bits", "[kvstore]") {
  Header pull;
  pull.kind = Kind::kPull;
  CHECK(parse_header(bytes_of(pull), 0).has_value());
  pull.payload_bytes = 4;
  pull.element_count = 1;
  CHECK_FALSE(parse_header(bytes_of(pull), 4).has_value());
  Header far = push_of(5);
  far.first_element = UINT32_MAX - 4;
  CHECK_FALSE(parse_header(bytes_of(far), 20).has_value());
  far.first_element = UINT32_MAX - 5;
  CHECK(parse_header(bytes_of(far), 20).has_value());
}

// 37 numbers cut at two places: all pairs of places, between numbers and inside them.
TEST_CASE("pieces are numbers wherever they are cut", "[kvstore]") {
  RandomStream random(1, Use::kTest);
  std::vector<float> values(37), before(37);
  for (float& value : values) value = static_cast<float>(random.below(1000));
  for (float& value : before) value = static_cast<float>(random.below(1000));
  const auto bytes = std::as_bytes(std::span(values));
  for (size_t a = 0; a <= bytes.size(); a++) {
    for (size_t b = a; b <= bytes.size(); b++) {
      const std::span<const std::byte> pieces[] = {bytes.first(a), bytes.subspan(a, b - a), bytes.subspan(b)};
      std::vector<float> copied(37), sum = before;
      copy_floats(pieces, copied);
      add_floats(pieces, sum);
      REQUIRE(copied == values);
      bool is_sum = true;
      for (size_t i = 0; i < 37; i++) is_sum = is_sum && sum[i] == before[i] + values[i];
      REQUIRE(is_sum);
    }
  }
}

TEST_CASE("pieces of another length are a bug of the caller", "[kvstore]") {
  const std::vector<std::byte> bytes(12);
  const std::span<const std::byte> pieces[] = {bytes};
  std::vector<float> two(2), four(4);
  CHECK_THROWS_AS(copy_floats(pieces, two), CheckFailed);
  CHECK_THROWS_AS(add_floats(pieces, four), CheckFailed);
  const std::span<const std::byte> cut[] = {std::span(bytes).first(11)};
  std::vector<float> three(3);
  CHECK_THROWS_AS(copy_floats(cut, three), CheckFailed);
}

TEST_CASE("a payload that was changed on its way is not intact", "[kvstore]") {
  std::vector<std::byte> bytes(20, std::byte{7});
  const Message message = make_message(push_of(5), bytes, nullptr, true);
  CHECK(message.header.payload_bytes == 20);
  const std::span<const std::byte> pieces[] = {std::span(bytes).first(3), std::span(bytes).subspan(3)};
  CHECK(payload_intact(message.header, pieces));
  bytes[11] ^= std::byte{1};
  CHECK_FALSE(payload_intact(message.header, pieces));
  CHECK(payload_intact(make_message(push_of(5), bytes, nullptr, false).header, pieces));  // no checksum to compare with
}
