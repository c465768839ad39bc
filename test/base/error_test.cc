#include "base/error.h"

#include <new>

#include "support/catch.h"

using namespace dtrain;

namespace {

Result<int> read_index(bool there) {
  if (!there) return fail(Code::kNotFound, "{}: no such file", "train.rec.idx");
  return 7;
}

Result<int> open_records(bool there) {
  DT_TRY(const int index, read_index(there), "opening record file '{}'", "train.rec");
  return index + 1;
}

Result<> start(bool there) {
  DT_TRY_VOID(open_records(there), "starting worker {}", 3);
  return {};
}

}  // namespace

TEST_CASE("an error has the context that each frame adds", "[base]") {
  const Result<> result = start(false);
  REQUIRE(!result);
  CHECK(result.error().code == Code::kNotFound);
  CHECK(result.error().text() ==
        "error [not found] train.rec.idx: no such file\n"
        "  while opening record file 'train.rec'\n"
        "  while starting worker 3");
  CHECK(*open_records(true) == 8);
}

TEST_CASE("a failed check throws its condition and message, which become an error at the boundary of a thread",
          "[base]") {
  const Result<> result = catching([]() -> Result<> {
    DT_CHECK(1 + 1 == 3, "sum is {}", 2);
    return {};
  });
  REQUIRE(!result);
  CHECK(result.error().code == Code::kInternal);
  CHECK_THAT(result.error().message, Catch::Contains("check '1 + 1 == 3' failed: sum is 2"));
}

TEST_CASE("running out of memory becomes an error that says what the memory was for", "[base]") {
  const auto exhaust = []() -> Result<> { throw std::bad_alloc(); };
  const Result<> named = catching(exhaust, "the answer to worker 3");
  REQUIRE(!named);
  CHECK(named.error().code == Code::kDevice);
  CHECK(named.error().message ==
        "not enough memory for the answer to worker 3: use a smaller --batch-size, image size or network");
  const Result<> unnamed = catching(exhaust);
  REQUIRE(!unnamed);
  CHECK(unnamed.error().message == "not enough memory: use a smaller --batch-size, image size or network");
}

TEST_CASE("an error shows quoted text without control characters and shortened", "[base]") {
  const Error error{Code::kData, "'a\nb\x1b[2J'", {"reading 'caf\xe9'"}};
  CHECK(error.text() == "error [data] 'a\\x0ab\\x1b[2J'\n  while reading 'caf\\xe9'");
  CHECK(Error{Code::kData, std::string(1 << 20, 'x'), {}}.text().size() < 5000);
}
