#include "tensor/ndarray_file.h"

#include <catch2/catch.hpp>
#include <cerrno>

#include "support/temp_dir.h"

using namespace dtrain;

namespace {

// One array `arg:w` = [1.0, -2.0] in version 2 of the format (docs/formats.md, "NDArray files").
const std::string kExample(
    "\x12\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x01\x00\x00\x00\x00\x00\x00\x00\xc9\xfa\x93\xf9\x00\x00\x00\x00"
    "\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00"
    "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x3f\x00\x00\x00\xc0"
    "\x01\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00"
    "\x61\x72\x67\x3a\x77",
    85);

// A small file with every kind of array that dtrain writes: numbers, bytes, an empty array, and an array with a
// dimension of 0.
std::string mixed_file() {
  static const std::vector<float> weights = {1, 2, 3, 4, 5, 6};
  static const std::vector<uint8_t> header = {'{', '}'};
  const std::vector<StoredArrayView> arrays = {
      {"header", {2}, std::span<const uint8_t>(header)},
      {"state:fc1_weight:mom", {2, 3}, std::span<const float>(weights)},
      {"empty", {}, std::span<const float>()},
      {"none", {0, 4}, std::span<const float>()},
  };
  return to_ndarray_bytes(arrays);
}

}  // namespace

TEST_CASE("the worked example is written and read byte for byte", "[tensor]") {
  const std::vector<float> values = {1.0F, -2.0F};
  const std::vector<StoredArrayView> arrays = {{"arg:w", {2}, std::span<const float>(values)}};
  CHECK(to_ndarray_bytes(arrays) == kExample);

  const auto parsed = parse_ndarray_bytes(kExample);
  REQUIRE(parsed);
  REQUIRE(parsed->size() == 1);
  CHECK((*parsed)[0].name == "arg:w");
  CHECK((*parsed)[0].shape == Shape{2});
  CHECK(std::get<std::vector<float>>((*parsed)[0].values) == values);
}

TEST_CASE("numbers, bytes and empty arrays are read back unchanged", "[tensor]") {
  const auto parsed = parse_ndarray_bytes(mixed_file());
  REQUIRE(parsed);
  REQUIRE(parsed->size() == 4);
  CHECK((*parsed)[0].name == "header");
  CHECK(std::get<std::vector<uint8_t>>((*parsed)[0].values) == std::vector<uint8_t>{'{', '}'});
  CHECK((*parsed)[1].shape == Shape{2, 3});
  CHECK(std::get<std::vector<float>>((*parsed)[1].values) == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK((*parsed)[2].shape.empty());
  CHECK((*parsed)[3].shape == Shape{0, 4});
}

TEST_CASE("a list without names is read", "[tensor]") {
  std::string bytes = kExample.substr(0, 64);
  bytes += std::string(8, '\0');
  const auto parsed = parse_ndarray_bytes(bytes);
  REQUIRE(parsed);
  CHECK((*parsed)[0].name.empty());
}

// Every prefix of a file is an Error, because the last name ends at the last byte. A sanitizer build detects reads
// beyond the end.
TEST_CASE("a truncated file is refused at every length", "[tensor]") {
  const std::string whole = mixed_file();
  for (size_t size = 0; size < whole.size(); size++) {
    INFO("bytes " << size);
    const std::string part = whole.substr(0, size);
    const auto parsed = parse_ndarray_bytes(part);
    REQUIRE_FALSE(parsed);
    REQUIRE(parsed.error().code == Code::kData);
  }
  CHECK_FALSE(parse_ndarray_bytes(whole + "x"));
}

// A flipped bit in a value or a name cannot be detected. Any other must result in complete arrays or an Error, and huge
// lengths must not be trusted.
TEST_CASE("a file with any bit flipped is read or refused, without a crash", "[tensor]") {
  const std::string whole = mixed_file();
  int refused = 0;
  for (size_t bit = 0; bit < whole.size() * 8; bit++) {
    INFO("bit " << bit);
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto parsed = parse_ndarray_bytes(damaged);
    if (!parsed) {
      refused++;
      REQUIRE(parsed.error().code == Code::kData);
      continue;
    }
    for (const StoredArray& array : *parsed) {
      const size_t count = std::visit([](const auto& values) { return values.size(); }, array.values);
      REQUIRE(static_cast<int64_t>(count) == (array.shape.empty() ? 0 : element_count(array.shape)));
    }
  }
  CHECK(refused > 500);
}

TEST_CASE("other versions, sparse arrays and other types are refused by name", "[tensor]") {
  const auto with = [](size_t at, char value) {
    std::string bytes = kExample;
    bytes[at] = value;
    return parse_ndarray_bytes(bytes).error();
  };
  CHECK_THAT(with(24, '\xc8').message, Catch::Contains("version") && Catch::Contains("MXNet 0.11"));
  CHECK_THAT(with(24, '\x01').message, Catch::Contains("version"));
  CHECK_THAT(with(28, 1).message, Catch::Contains("only dense"));
  CHECK_THAT(with(52, 2).message, Catch::Contains("only float32"));
  CHECK_THAT(with(28, 1).text(), Catch::Contains("array 0 of 1"));
}

TEST_CASE("a file of numbers is written whole or not at all", "[tensor]") {
  const test::TempDir dir;
  const std::string path = dir.path("a.params");
  const std::vector<NamedArray> old = {{"arg:w", {2}, {1, -2}}};
  const std::vector<NamedArray> fresh = {{"arg:w", {1, 2}, {3, 4}}, {"aux:m", {1}, {5}}};
  REQUIRE(write_ndarray_file(path, old));
  CHECK(*read_file(path) == kExample);
  for (int failing = 0;; failing++) {
    int call = 0;
    const Result<> written =
        write_ndarray_file(path, fresh, [&](const char*) { return call++ == failing ? ENOSPC : 0; });
    const auto read = read_ndarray_file(path);
    REQUIRE(read);
    CHECK(read->size() == (written ? 2 : 1));
    if (written) break;
  }
  CHECK((*read_ndarray_file(path))[0].shape == Shape{1, 2});
}

TEST_CASE("the error of an unreadable file names it", "[tensor]") {
  const test::TempDir dir;
  CHECK(read_ndarray_file(dir.path("absent")).error().code == Code::kNotFound);
  REQUIRE(write_file_atomic(dir.path("bad.params"), "no such thing"));
  CHECK_THAT(read_ndarray_file(dir.path("bad.params")).error().message, Catch::Contains("bad.params"));
  const std::vector<uint8_t> bytes = {1};
  const std::vector<StoredArrayView> arrays = {{"header", {1}, std::span<const uint8_t>(bytes)}};
  REQUIRE(write_stored_arrays(dir.path("bytes"), arrays));
  CHECK_THAT(read_ndarray_file(dir.path("bytes")).error().message, Catch::Contains("'header' is not float32"));
}

TEST_CASE("a file of another kind is named as what it is", "[tensor]") {
  const auto refusal = [](std::string_view bytes) { return parse_ndarray_bytes(bytes).error().message; };
  CHECK_THAT(refusal({"\x80\x03}q\x00(K\x00", 8}),
             Catch::Contains("not an NDArray file; it is a pickled Python object") && Catch::Contains("(.params)"));
  CHECK_THAT(refusal("{\"nodes\": [1, 2, 3]}"), Catch::Contains("it is a text file"));
  CHECK_THAT(refusal({"PK\x03\x04 numpy's npz", 16}), Catch::Contains("it is a zip archive"));
}
