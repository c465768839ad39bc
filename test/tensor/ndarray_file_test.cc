#include "tensor/ndarray_file.h"

#include <cerrno>
#include <cmath>

#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using dtrain::test::must;

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

// The bytes that hexadecimal digits name; blanks are ignored.
std::string bytes_of(std::string_view hex) {
  std::string bytes;
  int high = -1;
  for (const char digit : hex) {
    if (digit == ' ') continue;
    const int value = digit <= '9' ? digit - '0' : digit - 'a' + 10;
    if (high >= 0) bytes += static_cast<char>(high * 16 + value);
    high = high >= 0 ? -1 : value;
  }
  return bytes;
}

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

// The example as the versions before and after 2 store it. Versions 2 and 3, float16, float64 and sparse arrays below
// are files that MXNet 1.9.1 wrote.
TEST_CASE("arrays of versions 0 to 3 are read", "[tensor]") {
  const std::string head = bytes_of("12010000000000000000000000000000 0100000000000000");
  const std::string name = bytes_of("0100000000000000 0500000000000000 6172673a77");
  const std::string value = bytes_of("0100000000000000 00000000 0000803f000000c0");
  for (const std::string& start : {bytes_of("01000000 02000000"), bytes_of("c8fa93f9 01000000 0200000000000000"),
                                   bytes_of("c9fa93f9 00000000 01000000 0200000000000000"),
                                   bytes_of("cafa93f9 00000000 01000000 0200000000000000")}) {
    const auto arrays = must(parse_ndarray_bytes(head + start + value + name));
    REQUIRE(arrays.size() == 1);
    CHECK(arrays[0].name == "arg:w");
    CHECK(arrays[0].shape == Shape{2});
    CHECK(std::get<std::vector<float>>(arrays[0].values) == std::vector<float>{1, -2});
  }
  // No dimensions: an empty array, and in version 3 a scalar. There -1 is an unknown number or dimension.
  const auto shape_of = [&](const char* start, const std::string& rest = "") {
    return must(parse_ndarray_bytes(head + bytes_of(start) + rest + name))[0].shape;
  };
  CHECK(shape_of("00000000").empty());
  CHECK(shape_of("c8fa93f9 00000000").empty());
  CHECK(shape_of("c9fa93f9 00000000 00000000").empty());
  CHECK(shape_of("cafa93f9 00000000 ffffffff").empty());
  CHECK(shape_of("cafa93f9 00000000 01000000 ffffffffffffffff").empty());
  CHECK(shape_of("cafa93f9 00000000 00000000", bytes_of("0100000000000000 00000000 00002040")) == Shape{1});
}

TEST_CASE("floating-point types become float32", "[tensor]") {
  const auto values_of = [](const std::string& type, const std::string& elements, const char* extent) {
    const std::string bytes = "12010000000000000000000000000000 0100000000000000 c9fa93f9 00000000 01000000" +
                              std::string(extent) + "00000000000000 0100000000000000" + type + elements +
                              "0100000000000000 0500000000000000 6172673a77";
    return std::get<std::vector<float>>(must(parse_ndarray_bytes(bytes_of(bytes)))[0].values);
  };
  CHECK(values_of("02000000", "003c00c00038", "03") == std::vector<float>{1, -2, 0.5F});
  CHECK(values_of("01000000", "000000000000f03f 00000000000000c0 000000000000e03f", "03") ==
        std::vector<float>{1, -2, 0.5F});
  CHECK(values_of("0c000000", "803f 00c0 0100", "03") == std::vector<float>{1, -2, 0x1p-133F});
  // float64 rounds to the nearest, to even at half.
  CHECK(values_of("01000000", "000000100000f03f 000000300000f03f", "02") == std::vector<float>{1, 1 + 0x1p-22F});
}

TEST_CASE("every float16 is its exact float32", "[tensor]") {
  std::string file = bytes_of(
      "12010000000000000000000000000000 0100000000000000 c9fa93f9 00000000 01000000 0000010000000000 0100000000000000 "
      "02000000");
  for (uint32_t half = 0; half < 65536; half++) file += {static_cast<char>(half), static_cast<char>(half >> 8)};
  file += std::string(8, '\0');
  const auto values = std::get<std::vector<float>>(must(parse_ndarray_bytes(file))[0].values);
  int wrong = 0;
  for (int half = 0; half < 65536; half++) {
    const int exponent = half >> 10 & 31;
    const double fraction = half & 1023;
    const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1 + fraction / 1024, exponent - 15);
    const double expected = (half >> 15) != 0 ? -magnitude : magnitude;
    const auto value = static_cast<double>(values[static_cast<size_t>(half)]);
    const bool right = exponent < 31   ? value == expected && std::signbit(value) == (half >> 15 != 0)
                       : fraction == 0 ? std::isinf(value) && std::signbit(value) == (half >> 15 != 0)
                                       : std::isnan(value);
    if (!right) wrong++;
  }
  CHECK(wrong == 0);
}

TEST_CASE("sparse arrays and arrays of other types are refused by name", "[tensor]") {
  const auto message = [](std::string_view hex) { return parse_ndarray_bytes(bytes_of(hex)).error().message; };
  // Written by MXNet 1.9.1: three ones as row_sparse and as csr; arrays of float64, uint8, int32, int8 and int64.
  CHECK_THAT(
      message("120100000000000000000000000000000100000000000000c9fa93f901000000020000000300000000000000030000000000"
              "0000020000000300000000000000030000000000000001000000000000000000000006000000010000000300000000000000"
              "0000803f0000000000000000000000000000803f0000000000000000000000000000803f0000000000000000010000000000"
              "00000200000000000000010000000000000005000000000000006172673a73"),
      Catch::Contains("'arg:s' (row_sparse)") && Catch::Contains("tostype"));
  CHECK_THAT(
      message("120100000000000000000000000000000100000000000000c9fa93f902000000010000000300000000000000020000000300"
              "0000000000000300000000000000010000000000000000000000060000000100000004000000000000000600000001000000"
              "03000000000000000000803f0000803f0000803f000000000000000001000000000000000200000000000000030000000000"
              "0000000000000000000001000000000000000200000000000000010000000000000005000000000000006172673a73"),
      Catch::Contains("'arg:s' (csr)"));
  CHECK_THAT(
      message("120100000000000000000000000000000500000000000000c9fa93f900000000020000000100000000000000030000000000"
              "0000010000000000000001000000000000000000f03f00000000000000c0000000000000e03fc9fa93f90000000002000000"
              "0100000000000000030000000000000001000000000000000300000001fe00c9fa93f9000000000200000001000000000000"
              "00030000000000000001000000000000000400000001000000feffffff00000000c9fa93f900000000020000000100000000"
              "000000030000000000000001000000000000000500000001fe00c9fa93f90000000002000000010000000000000003000000"
              "0000000001000000000000000600000001000000"
              "00000000feffffffffffffff000000000000000005000000000000000700000000000000666c6f6174363405000000000000"
              "0075696e74380500000000000000696e7433320400000000000000696e74380500000000000000696e743634"),
      Catch::Contains("'int32' (int32), 'int8' (int8), 'int64' (int64);") && !Catch::Contains("uint8' ("));
}

TEST_CASE("lengths and numbers that lie end with one error", "[tensor]") {
  const auto with = [](size_t at, std::string_view hex) {
    std::string bytes = kExample;
    const std::string word = bytes_of(hex);
    bytes.replace(at, word.size(), word);
    return parse_ndarray_bytes(bytes).error().text();
  };
  CHECK_THAT(with(16, "0000000000000080"), Catch::Contains("at most 262144"));
  CHECK_THAT(with(16, "0100040000000000"), Catch::Contains("at most 262144"));
  CHECK_THAT(with(24, "21000000"), Catch::Contains("neither a version nor a number of dimensions"));
  CHECK_THAT(with(28, "03000000"), Catch::Contains("storage type is 3") && Catch::Contains("array 0 of 1"));
  CHECK_THAT(with(32, "21000000"), Catch::Contains("33 dimensions"));
  CHECK_THAT(with(36, "ffffffffffffffff"), Catch::Contains("dimension 0 is -1"));
  CHECK_THAT(with(36, "ffffffffffffff7f"), Catch::Contains("too large"));
  CHECK_THAT(with(36, "0000000000010000"), Catch::Contains("the file ends at byte 85"));
  CHECK_THAT(with(52, "0d000000"), Catch::Contains("type is unknown (13)"));
  CHECK_THAT(with(64, "0000000000000080"), Catch::Contains("names for 1 arrays"));
  CHECK_THAT(with(72, "0110000000000000"), Catch::Contains("4097 bytes"));
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
  CHECK_THAT(
      refusal({"\x80\x03}q\x00(K\x00", 8}),
      Catch::Contains("this is not an NDArray file, but a pickled Python object") && Catch::Contains("(.params)"));
  CHECK_THAT(refusal("{\"nodes\": [1, 2, 3]}"), Catch::Contains("not an NDArray file, but a text file"));
  CHECK_THAT(refusal({"PK\x03\x04 numpy's npz", 16}), Catch::Contains("not an NDArray file, but a zip archive"));
}
