#include "base/console.h"

#include <catch2/catch.hpp>

using namespace dtrain;
using namespace std::chrono_literals;

namespace {
const Console::Time kStart{};
}

TEST_CASE("on a terminal the live line stays below all other output", "[base]") {
  std::string bytes;
  {
    Console console([&](std::string_view text) { bytes += text; }, 20);
    console.line("one");
    console.live("step 1", kStart);
    console.line("two");
    console.live("a text that is wider than the terminal", kStart);
  }
  CHECK(bytes ==
        "one\n"
        "\r\x1b[Kstep 1"
        "\r\x1b[Ktwo\n\r\x1b[Kstep 1"
        "\r\x1b[Ka text that is wide\n");
}

TEST_CASE("without a terminal the live line is plain text, at most every 10 s", "[base]") {
  std::string bytes;
  {
    Console console([&](std::string_view text) { bytes += text; }, 0);
    console.live("step 1", kStart);
    console.live("step 2", kStart + 9s);
    console.line("one");
    console.live("step 3", kStart + 10s);
    console.live("step 4", kStart + 19s);
  }
  CHECK(bytes == "step 1\none\nstep 3\n");
}
