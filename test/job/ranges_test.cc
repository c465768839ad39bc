// Numbers that are out of a flag's range.
#include <cmath>

#include "job/flags/rows.h"
#include "job/parse.h"
#include "job/spec/job_spec.h"
#include "support/catch.h"

namespace dtrain::job {

using Catch::Matchers::Contains;

// For every flag of training, the result is an error that names the flag, or a value that is in range.
TEST_CASE("each flag refuses values out of its range", "[job]") {
  const std::vector<std::string> values = {"-1",          "0",     "2147483648", "4294967296", "9223372036854775807",
                                           "-2147483649", "1e300", "nan",        "inf",        ""};
  for (size_t i = 0; i < training_flags().rows().size(); i++) {
    const Row& row = training_flags().rows()[i];
    if (row.bind.numeric) CHECK(std::abs(*row.max) <= 1e12);
    for (const std::string& value : values) {
      INFO(row.spelling() << "=" << value);
      Flags flags;
      const Result<> set = training_flags().apply({i, row.spelling(), value}, flags);
      if (!set) {
        CHECK(set.error().code == Code::kUsage);
        CHECK_THAT(set.error().message, Catch::StartsWith(row.spelling() + ": "));
        continue;
      }
      const std::optional<NumberRange> numbers = row.bind.numbers ? row.bind.numbers(flags) : std::nullopt;
      const bool in_range = !numbers || (numbers->min >= *row.min && numbers->max <= *row.max);
      CHECK(in_range);
    }
  }
}

// parse_flags returns at once, with an error or with flags that can be written as a JobSpec.
TEST_CASE("flags at the ends of their ranges are refused or give a valid JobSpec", "[job]") {
  for (const Row& row : training_flags().rows()) {
    if (!row.bind.numeric) continue;
    for (const double number : {*row.min, *row.max}) {
      const std::string value = fmt::format("{:.17g}", number);
      INFO(row.spelling() << "=" << value);
      const Result<Parsed> result =
          parse_flags({"--benchmark", "1", "--network", "lenet", row.spelling() + "=" + value}, variables({}));
      if (result) CHECK(parse_job_spec(text(requested(result->flags))));
      if (!result) CHECK(result.error().code == Code::kUsage);
    }
  }
}

TEST_CASE("a range error names the value and the limit", "[job]") {
  CHECK_THAT(refused({"--batch-size", "4294967296"}), Contains("--batch-size: 4294967296 is more than 1048576"));
  CHECK_THAT(refused({"-n", "200000"}), Contains("-n: 200000 is more than 65536"));
  CHECK_THAT(refused({"--threads", "1000000"}), Contains("--threads: 1000000 is more than 1024"));
  CHECK_THAT(refused({"--lr-step-epochs", "3,1e300"}), Contains("--lr-step-epochs: 3,1e300 is more than"));
  CHECK_THAT(refused({"--save-every", "1e8"}), Contains("--save-every: 1e8 is more than"));
  CHECK_THAT(refused({"--model-prefix", std::string(5000, 'a')}), Contains("5000 characters"));
  CHECK(refused({"--lr", std::string(1 << 20, 'a')}).size() < 5000);
}

}  // namespace dtrain::job
