#include "bucket_checks.h"

using namespace dtrain;
using namespace dtrain::exec;

namespace {

test::Compile compile_for_cpu(const test::Case& c) {
  return [&c](const Options& options, Executor* weights_of) {
    return make_cpu_backend()->compile(c.graph, options, weights_of).value();
  };
}

void check_lent(const test::Case& c, const std::vector<size_t>& begin) {
  Options options = case_options(c);
  options.winograd = true;
  options.keep_all = false;
  options.bucket_begin = begin;
  check_lent_weights(c, options, compile_for_cpu(c));
}

}  // namespace

TEST_CASE("buckets are awaited and announced once each and in order", "[exec][cpu]") {
  const test::Case c = test::three_convolutions(4);
  check_order_of_buckets(c, 1, 3, compile_for_cpu(c));
}

TEST_CASE("weights are read only between their wait and their announcement", "[exec][cpu]") {
  check_lent(test::three_convolutions(4), {0, 3, 4, 9, 12});
}

TEST_CASE("shared weights are read only between their wait and their announcement", "[exec][cpu]") {
  for (const test::Case& c : test::operator_cases()) {
    INFO(c.name);
    std::vector<size_t> begin(infer_shapes(c.graph, exec::test::case_options(c))->parameters.size());
    std::iota(begin.begin(), begin.end(), 0);
    check_lent(c, begin);
    check_lent(c, {0});
  }
}

TEST_CASE("an error of a wait or an announcement ends the pass", "[exec][cpu]") {
  const test::Case c = test::three_convolutions(4);
  check_errors_of_buckets(c, compile_for_cpu(c));
}

TEST_CASE("executors share weights", "[exec][cpu]") {
  const test::Case c = test::three_convolutions(4);
  check_shared_weights(c, compile_for_cpu(c));
}
