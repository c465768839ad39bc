// The screens of --help and `dtrain help`, and the examples that `dtrain` alone prints.
#include <algorithm>
#include <cstdlib>
#include <regex>

#include "base/file.h"
#include "job/flags/flags.h"
#include "job/flags/rows.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/process.h"

namespace dtrain {

using Catch::Matchers::Contains;
using test::Ended;
using test::must;

namespace {

Ended asked(std::vector<std::string> words, const std::vector<std::string>& more_environment = {}) {
  words.insert(words.begin(), DTRAIN_EXE);
  std::vector<std::string> environment = {"DMLC_ROLE", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER", "DTRAIN_TOKEN"};
  environment.insert(environment.end(), more_environment.begin(), more_environment.end());
  return test::run(words, {.deadline_s = 30, .directory = {}, .environment = environment});
}

std::string answer(const std::vector<std::string>& words) {
  const Ended ended = asked(words);
  INFO(ended.output);
  REQUIRE(ended.code == 0);
  return ended.output;
}

// The flags at the beginning of a line.
std::vector<std::string> flags_in(const std::string& text) {
  const std::regex line("(?:^|\\n)  (--[a-z0-9-]+)");
  std::vector<std::string> flags;
  for (std::sregex_iterator i(text.begin(), text.end(), line), end; i != end; ++i) flags.push_back((*i)[1]);
  return flags;
}

}  // namespace

// The expected text is help.txt; DTRAIN_REWRITE_GOLDEN=1 writes it again, and the change is then read as a diff.
TEST_CASE("the first screen of help is the recorded one and fits on a screen", "[cmd]") {
  const std::string screen = answer({"--help"});
  const std::string path = std::string(DTRAIN_CMD_TEST_DIR) + "/help.txt";
  if (std::getenv("DTRAIN_REWRITE_GOLDEN") != nullptr) REQUIRE(write_file_atomic(path, screen));
  CHECK(screen == must(read_file(path)));
  CHECK(std::count(screen.begin(), screen.end(), '\n') <= 45);
  CHECK(flags_in(screen).size() == 20);
  for (size_t begin = 0; begin < screen.size();) {
    const size_t end = screen.find('\n', begin);
    INFO(screen.substr(begin, end - begin));
    CHECK(end - begin <= 100);
    begin = end + 1;
  }
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"-h"}, {"help"}, {"--lr", "0.1", "--help"}, {"--help", "--lr", "0.1"}}) {
    CHECK(answer(words) == screen);
  }
}

TEST_CASE("the subjects of help have all flags of training, each one once", "[cmd]") {
  std::vector<std::string> all;
  for (const job::Section& section : job::sections()) {
    INFO(section.subject);
    const std::string text = answer({"--help", section.subject});
    CHECK_THAT(text, Contains(section.heading));
    for (const std::string& flag : flags_in(text)) all.push_back(flag);
  }
  std::vector<std::string> expected;
  for (const job::Row& row : job::training_flags().rows()) expected.push_back(row.spelling());
  CHECK(all == expected);
  CHECK(flags_in(answer({"--help", "all"})) == expected);
  CHECK(flags_in(answer({"train", "--help"})) == expected);
}

TEST_CASE("help on a sub-command is what its --help shows", "[cmd]") {
  CHECK(answer({"help", "kill"}) == answer({"kill", "--help"}));
  CHECK(answer({"help", "bench", "kv"}) == answer({"bench", "kv", "-h"}));
  CHECK(answer({"--help", "bench", "kv"}) == answer({"bench", "kv", "-h"}));
  CHECK(answer({"--help", "train"}) == answer({"train", "--help"}));
  CHECK(answer({"train", "--help", "optimizer"}) == answer({"--help", "optimizer"}));
  CHECK_THAT(answer({"help", "bench"}), Contains("dtrain bench train ") && Contains("dtrain bench kv "));
  // "data" is a subject and the first word of sub-commands.
  CHECK_THAT(answer({"help", "data"}), Contains("dtrain data get ") && Contains("--data-train"));
  CHECK_THAT(answer({"data", "--help"}), Contains("dtrain data get "));
}

TEST_CASE("a mistyped topic, sub-command or second word is answered with the nearest one", "[cmd]") {
  const auto refused = [](const std::vector<std::string>& words) {
    const Ended ended = asked(words);
    CHECK(ended.code == 2);
    return ended.output;
  };
  CHECK_THAT(refused({"--help", "trian"}), Contains("there is no 'trian', did you mean 'train'?"));
  CHECK_THAT(refused({"help", "optimiser"}), Contains("did you mean 'optimizer'?") && Contains("Choose from: all, "));
  CHECK_THAT(refused({"help", "something"}), Contains("there is no 'something'. Choose from: all, launch, "));
  CHECK_THAT(refused({"help", "bench", "kw"}), Contains("there is no 'bench kw'"));
  CHECK_THAT(refused({"trian", "--help"}), Contains("did you mean 'train'?"));
  CHECK_THAT(refused({"hlep"}), Contains("did you mean 'help'?"));
  CHECK_THAT(refused({"data", "gte"}), Contains("synth, index, get, stat") && Contains("did you mean 'get'?"));
  CHECK_THAT(refused({"data"}), Contains("dtrain data must be followed by one of: synth, index, get, stat"));
  CHECK_THAT(refused({"help", "bench", "kv", "more"}), Contains("usage: dtrain help"));
}

TEST_CASE("dtrain alone prints five examples, except as a process of a tracker", "[cmd]") {
  const Ended alone = asked({});
  INFO(alone.output);
  CHECK(alone.code == 2);  // nothing was trained: a script whose flags got lost must not go on
  const std::regex example("\n  dtrain ");
  CHECK(std::distance(std::sregex_iterator(alone.output.begin(), alone.output.end(), example), {}) == 5);
  CHECK_THAT(alone.output, Contains("dtrain --help"));
  CHECK(asked({}, {"PS_VERBOSE=1"}).output == alone.output);
  CHECK_THAT(asked({}, {"DMLC_ROLE=boss"}).output, Contains("there is no 'boss'"));
  CHECK_THAT(asked({}, {"DMLC_ROLE=worker", "DMLC_NUM_WORKER=2"}).output, Contains("--scheduler HOST:PORT"));
  CHECK_THAT(asked({}, {"DMLC_NUM_WORKER=2"}).output, Contains("no training data"));
  CHECK_THAT(asked({"train"}).output, Contains("no training data"));
}

}  // namespace dtrain
