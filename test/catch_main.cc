// main() of the test programs. Test cases run in random order, so that none can depend on what another one left behind;
// the seed is printed, and DTRAIN_TEST_SEED=N or --rng-seed N repeats the order. A test case that takes a second or
// longer is printed with its time, which scripts/test collects.
#define CATCH_CONFIG_RUNNER
#include "support/catch.h"

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_session.hpp>
#include <catch2/catch_test_case_info.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#else
namespace Catch {
using EventListenerBase = TestEventListenerBase;  // the name in version 3
}  // namespace Catch
#endif

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace {

uint32_t order_seed = 0;

class Times : public Catch::EventListenerBase {
 public:
  using Catch::EventListenerBase::EventListenerBase;

  // Not called if the tests are only listed.
  void testRunStarting(const Catch::TestRunInfo& /*run*/) override {
    std::printf("random order by DTRAIN_TEST_SEED=%u\n", order_seed);
    std::fflush(stdout);
  }
  void testCaseStarting(const Catch::TestCaseInfo& test) override {
    name_ = test.name;
    began_ = std::chrono::steady_clock::now();
  }
  void testCaseEnded(const Catch::TestCaseStats& /*stats*/) override {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began_;
    if (took.count() < 1) return;
    std::printf("%.3f s: %s\n", took.count(), name_.c_str());
    std::fflush(stdout);
  }

 private:
  std::string name_;
  std::chrono::steady_clock::time_point began_;
};

CATCH_REGISTER_LISTENER(Times)

}  // namespace

int main(int argc, char** argv) {
  Catch::Session session;
  const char* const usual[] = {argv[0], "--order", "rand"};
  if (const int error = session.applyCommandLine(3, usual); error != 0) return error;
  const char* given = std::getenv("DTRAIN_TEST_SEED");
  session.configData().rngSeed =
      given != nullptr ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
  if (const int error = session.applyCommandLine(argc, argv); error != 0) return error;
  order_seed = session.configData().rngSeed;
  return session.run();
}
