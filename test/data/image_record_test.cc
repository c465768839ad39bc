#include "data/records/image_record.h"

#include "make_images.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::data;
using namespace dtrain::images;
using dtrain::test::must;

namespace {

std::string hex(const std::vector<uint8_t>& bytes) {
  std::string text;
  for (const uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

constexpr uint8_t kImage[] = {0xff, 0xd8, 0xff};

}  // namespace

// Layout: docs/formats.md, "Image records".
TEST_CASE("image records have MXNet's bytes", "[data]") {
  const auto payload = test::image_payload(7, 3.0f, kImage);
  CHECK(hex(payload) == "000000000000404007000000000000000000000000000000ffd8ff");
  std::vector<uint8_t> record;
  must(append_record(record, payload));
  CHECK(hex(record) == "0a23d7ce1b000000000000000000404007000000000000000000000000000000ffd8ff00");
  CHECK(record.size() == 36);

  std::vector<uint8_t> several;
  const float labels[] = {1.0f, 5.0f};
  append_image_record(several, 7, labels, kImage);
  CHECK(hex(several) == "020000000000803f070000000000000000000000000000000000803f0000a040ffd8ff");
}

TEST_CASE("image records are read back with ids beyond 2^32 and with labels after the header", "[data]") {
  const uint64_t id = (uint64_t{1} << 32) + 5;
  const auto payload = test::image_payload(id, 3.0f, kImage);
  const ImageRecord one = must(parse_image_record(payload));
  CHECK(one.flag == 0);
  CHECK(one.id == id);
  CHECK(one.label_at(0) == 3.0f);
  CHECK(one.image.size() == 3);

  std::vector<uint8_t> several;
  const float labels[] = {1.0f, 5.0f};
  append_image_record(several, 7, labels, kImage);
  const ImageRecord two = must(parse_image_record(several));
  CHECK(two.flag == 2);
  CHECK(two.label_at(1) == 5.0f);
  CHECK(two.image.size() == 3);
}

TEST_CASE("a header that announces more bytes than there are is an error", "[data]") {
  auto payload = test::image_payload(7, 3.0f, kImage);
  for (size_t length = 0; length < 24; length++) CHECK(!parse_image_record(Bytes(payload).first(length)));
  for (const uint32_t flag : {1u, 2u, 0x40000000u, 0xffffffffu}) {
    store_u32(payload.data(), flag);
    CHECK(parse_image_record(payload).error().code == Code::kData);
  }
}
