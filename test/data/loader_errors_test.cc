// Broken records, wrong labels and failing decoders.

#include <memory>

#include "data/loading/loader.h"
#include "number_records.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::data;
using namespace dtrain::images;
using dtrain::test::must;

TEST_CASE("validation leaves out a broken record, and training takes the next one in its place", "[data]") {
  auto numbers = std::make_shared<test::Numbers>(10);
  numbers->broken = {1, 2, 9};
  LoaderOptions options = test::training(10, 4);
  options.shuffle = false;
  Loader loader(numbers, options, Log::silent());
  std::vector<float> records;
  for (const test::Row& row : test::epoch_rows(loader, 0)) records.push_back(row.record);
  CHECK(records == std::vector<float>{0, 3, 3, 3, 4, 5, 6, 7, 8, 0, 0, 3});
  CHECK(loader.bad_records() == 3);

  options.mode = LoaderOptions::Mode::kValidation;
  Loader validation(numbers, options, Log::silent());
  records.clear();
  for (const test::Row& row : test::epoch_rows(validation, 0)) records.push_back(row.record);
  CHECK(records == std::vector<float>{0, 3, 4, 5, 6, 7, 8});

  validation.start(1);
  std::vector<int64_t> named;
  while (const LoadedBatch* batch = must(validation.next())) {
    named.insert(named.end(), batch->records.begin(), batch->records.begin() + batch->count);
  }
  CHECK(named == std::vector<int64_t>{0, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("each broken record is counted once, and one too many ends the run", "[data]") {
  auto numbers = std::make_shared<test::Numbers>(40);
  numbers->broken = {3, 5, 8};
  LoaderOptions options = test::training(40, 8);
  options.threads = 4;
  options.max_bad_records = 3;
  Loader loader(numbers, options, Log::silent());
  for (int64_t epoch = 0; epoch < 5; epoch++) test::epoch_rows(loader, epoch);
  CHECK(loader.bad_records() == 3);

  options.max_bad_records = 2;
  Loader failing(numbers, options, Log::silent());
  const Error error = test::failing_epoch(failing);
  CHECK(error.code == Code::kData);
  CHECK(error.message.find("--max-bad-records 2") != std::string::npos);
  CHECK(error.message.find("broken on purpose") != std::string::npos);

  options.max_bad_records = 0;
  Loader strict(numbers, options, Log::silent());
  CHECK(test::failing_epoch(strict).message.find("--max-bad-records N skips") != std::string::npos);
}

TEST_CASE("a share with only broken records is an error", "[data]") {
  auto numbers = std::make_shared<test::Numbers>(4);
  numbers->broken = {0, 1, 2, 3};
  Loader loader(numbers, test::training(4, 2), Log::silent());
  CHECK(test::failing_epoch(loader).message.find("none of the records") != std::string::npos);
}

TEST_CASE("a label that is not a class is an error that names the record", "[data]") {
  auto numbers = std::make_shared<test::Numbers>(30);
  numbers->classes = 11;
  LoaderOptions options = test::training(30, 4);
  options.threads = 4;
  Loader loader(numbers, options, Log::silent());
  const Error error = test::failing_epoch(loader);
  CHECK(error.code == Code::kData);
  CHECK((error.message.find("record 10") != std::string::npos || error.message.find("record 21") != std::string::npos));
  CHECK(error.message.find("label 10 is not in the range 0 to 9") != std::string::npos);
}

TEST_CASE("a label that is not a whole number is an error that names the record", "[data]") {
  auto numbers = std::make_shared<test::Numbers>(30);
  numbers->label_excess = 0.5F;
  LoaderOptions options = test::training(30, 4);
  options.shuffle = false;
  Loader loader(numbers, options, Log::silent());
  CHECK(test::failing_epoch(loader).message.find("record 0: label 0.5 is not a whole number") != std::string::npos);
}

TEST_CASE("an error is returned in place of its batch, whatever was prefetched", "[data]") {
  auto numbers = std::make_shared<test::Numbers>(11);
  numbers->classes = 11;
  LoaderOptions options = test::training(11, 2);
  options.shuffle = false;
  options.prefetch = 8;
  options.threads = 4;
  Loader loader(numbers, options, Log::silent());
  loader.start(0);
  for (int i = 0; i < 5; i++) CHECK(must(loader.next()) != nullptr);
  CHECK(!loader.next());
}

TEST_CASE("an exception of a decoder becomes an error of the caller", "[data]") {
  auto numbers = std::make_shared<test::Numbers>(11);
  numbers->throws = true;
  Loader loader(numbers, test::training(11, 2), Log::silent());
  const Error error = test::failing_epoch(loader);
  CHECK(error.code == Code::kInternal);
  CHECK(error.message == "a library threw");
}
