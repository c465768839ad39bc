#include "base/console.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/unique_fd.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace std::chrono_literals;

namespace {

const Console::Time kStart{};

// The bytes that a console writes to a terminal of this width when `use` is called on it.
std::string written(int columns, const std::function<void(Console&, int& columns)>& use) {
  std::string bytes;
  {
    Console console([&](std::string_view text) { bytes += text; }, [&] { return WindowSize{columns, 24}; });
    use(console, columns);
  }
  return bytes;
}

}  // namespace

TEST_CASE("on a terminal the live line stays below all other output, and its last version is complete", "[base]") {
  CHECK(written(20,
                [](Console& console, int&) {
                  console.line("one");
                  console.live("step 1", kStart);
                  console.line("two");
                  console.live("a text that is wider than the terminal", kStart);
                }) ==
        "one\n"
        "\r\x1b[Kstep 1"
        "\r\x1b[Ktwo\n\r\x1b[Kstep 1"
        "\r\x1b[Ka text that is wide"
        "\r\x1b[Ka text that is wider than the terminal\n");
}

TEST_CASE("the live line follows the current width of the window", "[base]") {
  CHECK(written(20,
                [](Console& console, int& columns) {
                  console.live("0123456789", kStart);
                  columns = 5;  // now the line covers two rows
                  console.resized();
                  columns = 20;
                  console.resized();
                }) ==
        "\r\x1b[K0123456789"
        "\r\x1b[1A\x1b[J0123"
        "\r\x1b[K0123456789"
        "\r\x1b[K0123456789\n");
}

TEST_CASE("a block of live lines is erased as a whole, however the window has wrapped it", "[base]") {
  const Live block("job", std::nullopt, {"worker 0 at work", "worker 1"});
  CHECK(written(30,
                [&](Console& console, int& columns) {
                  console.live(block, kStart);
                  console.line("one");
                  columns = 10;  // the terminal shows the line of worker 0 in two rows
                  console.resized();
                  console.live({}, kStart);
                }) ==
        "\r\x1b[Kjob\r\nworker 0 at work\r\nworker 1"
        "\r\x1b[2A\x1b[Jone\n\r\x1b[Kjob\r\nworker 0 at work\r\nworker 1"
        "\r\x1b[3A\x1b[Jjob\r\nworker 0 \r\nworker 1"
        "\r\x1b[2A\x1b[J");
}

TEST_CASE("a text that is too wide is broken between its parts, and has a bar", "[base]") {
  const std::string text = "epoch 3  step 120/4690  5400 samples/s  ETA 1m20s";
  using Lines = std::vector<std::string>;
  CHECK(lines_in_window(text, {80, 24}) == Lines{text});
  CHECK(lines_in_window(text, {40, 24}) == Lines{"epoch 3  step 120/4690  5400 samples/s", "ETA 1m20s"});
  CHECK(lines_in_window(text, {12, 24}) == Lines{"epoch 3", "step 120/46"});  // a part alone is cut
  CHECK(lines_in_window({"half", 0.5}, {80, 24}) == Lines{"[==========>         ] half"});
  CHECK(lines_in_window({"all", 1.0}, {30, 24}) == Lines{"[=========] all"});
  CHECK(lines_in_window({"small", 0.5}, {8, 24}) == Lines{"small"});
}

TEST_CASE("a line for people is no wider than the terminal", "[base]") {
  using Lines = std::vector<std::string>;
  const std::string epoch = "epoch 3/30  loss 0.145  validation 96.1 % (best)  rate 0.05  12.9 s";
  CHECK(fitted(epoch, Fit::kParts, {67, 24}) == Lines{epoch});
  CHECK(fitted(epoch, Fit::kParts, {66, 24}) == Lines{"epoch 3/30  loss 0.145  validation 96.1 % (best)  12.9 s"});
  CHECK(fitted(epoch, Fit::kParts, {40, 24}) == Lines{"epoch 3/30  loss 0.145  12.9 s"});
  CHECK(fitted(epoch, Fit::kParts, {10, 24}) == Lines{"epoch 3/30"});
  CHECK(fitted(epoch, Fit::kParts, {5, 24}) == Lines{"epoch 3/30"});
  CHECK(fitted(epoch, Fit::kParts, {}) == Lines{epoch});  // no terminal

  const std::string words = "of the workers' time, 'one two' (and 'a long path') took 100 %";
  CHECK(fitted(words, Fit::kAsIs, {10, 24}) == Lines{words});
  CHECK(fitted(words, Fit::kWords, {80, 24}) == Lines{words});
  CHECK(fitted(words, Fit::kWords, {24, 24}) ==
        Lines{"of the workers' time,", "  'one two' (and", "  'a long path') took", "  100 %"});
  CHECK(fitted(words, Fit::kWords, {12, 24}) ==
        Lines{"of the", "  workers'", "  time,", "  'one two'", "  (and", "  'a long path')", "  took 100 %"});
  CHECK(fitted("", Fit::kWords, {10, 24}) == Lines{""});
  CHECK(fitted("word", Fit::kWords, {1, 24}) == Lines{"word"});
}

TEST_CASE("the last live text is broken between its parts on a terminal", "[base]") {
  const auto last = [](int columns) {
    const std::string bytes = written(columns, [](Console& console, int&) { console.live("one two  three", kStart); });
    return bytes.substr(bytes.rfind("\x1b[") + 3);
  };
  CHECK(last(80) == "one two  three\n");
  CHECK(last(10) == "one two\nthree\n");
}

TEST_CASE("of a block, as many lines are shown as half of the window takes, and the others are counted", "[base]") {
  const Live block("job", std::nullopt, {"a", "b", "c", "d", "e"});
  using Lines = std::vector<std::string>;
  CHECK(lines_in_window(block, {80, 12}) == Lines{"job", "a", "b", "c", "d", "e"});
  CHECK(lines_in_window(block, {80, 8}) == Lines{"job", "a", "b", "... and 3 more"});
  CHECK(lines_in_window(block, {80, 4}) == Lines{"job", "... and 5 more"});
  CHECK(lines_in_window(block, {80, 1}) == Lines{"job"});
}

// A character beyond ASCII may be two columns wide.
TEST_CASE("no character is cut in two", "[base]") {
  CHECK(lines_in_window(std::string("a\u00e9\u00e9\u00e9\u00e9"), {5, 24}) ==
        std::vector<std::string>{"a\u00e9\u00e9\u00e9"});
  CHECK(lines_in_window(std::string("a\u732b\u732b\u732b"), {7, 24}) == std::vector<std::string>{"a\u732b\u732b"});
}

TEST_CASE("without a terminal the live line is plain text, at most every 10 s and at the end", "[base]") {
  CHECK(written(0, [](Console& console, int&) {
          console.live("step 1", kStart);
          console.live("step 2", kStart + 9s);
          console.line("one");
          console.live("step 3", kStart + 10s);
          console.live("step 4", kStart + 19s);
          console.live("step 4", kStart + 19s);
        }) == "step 1\none\nstep 3\nstep 4\n");
  CHECK(written(0, [](Console& console, int&) {
          console.live("step 1", kStart);
          console.live("step 1", kStart + 1s);
        }) == "step 1\n");
  CHECK(written(0, [](Console& console, int&) { console.live("step 1", kStart); }) == "step 1\n");
}

TEST_CASE("lines that stderr does not take are counted when it takes lines again", "[base]") {
  const dtrain::test::TempDir dir;
  const UniqueFd stderr_before(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  const auto redirect = [](const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    return file.open() && ::dup2(file.get(), STDERR_FILENO) == STDERR_FILENO;
  };
  const bool redirected = redirect("/dev/full");
  Console console = Console::to_stderr("");
  console.line("one");
  console.line("two");
  const bool redirected_again = redirect(dir.path("log"));
  console.line("three");
  console.line("four");
  ::dup2(stderr_before.get(), STDERR_FILENO);
  CHECK(redirected);
  CHECK(redirected_again);
  CHECK(read_file(dir.path("log")).value() ==
        "(2 lines are missing here, because they could not be written: No space left on device)\nthree\nfour\n");
}
