// Shell completion and the manual page, which are made from the flag tables.
#include <fmt/core.h>

#include <algorithm>

#include "base/file.h"
#include "job/flags/flags.h"
#include "job/flags/rows.h"
#include "support/catch.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace dtrain {

using Catch::Matchers::Contains;

namespace {

std::string output_of(const std::vector<std::string>& command, const std::string& directory = "") {
  const test::Ended ended = test::run(command, {.deadline_s = 30, .directory = directory, .environment = {}});
  INFO(ended.output);
  REQUIRE(ended.code == 0);
  return ended.output;
}

// What bash offers for the last word, as one line per word. bash splits words also at "=".
class Bash {
 public:
  Bash() {
    REQUIRE(write_file_atomic(dir_.path("completion"), output_of({DTRAIN_EXE, "completion", "bash"})));
    REQUIRE(write_file_atomic(dir_.path("train.rec"), ""));
    REQUIRE(make_directories(dir_.path("images")));
  }

  std::string offers(const std::string& words) const {
    const std::string script = fmt::format(
        "source ./completion; COMP_WORDS=({}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); _dtrain; "
        "printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words);
    return output_of({"bash", "-c", script}, dir_.path());
  }

 private:
  test::TempDir dir_;
};

}  // namespace

TEST_CASE("bash completes subcommands, flags, values and files", "[cmd]") {
  const Bash bash;
  CHECK_THAT(bash.offers("dtrain ''"), Contains("train\n") && Contains("bench\n") && Contains("man\n"));
  CHECK(bash.offers("dtrain si") == "simulate\n");
  CHECK(bash.offers("dtrain data ''") == "synth\nindex\nget\nstat\n");
  CHECK(bash.offers("dtrain bench k") == "kv\n");
  CHECK(bash.offers("dtrain completion ''") == "bash\nzsh\nfish\n");
  CHECK_THAT(bash.offers("dtrain help ''"), Contains("all\n") && Contains("optimizer\n") && Contains("bench\n"));
  CHECK(bash.offers("dtrain help opt") == "optimizer\n");
  CHECK(bash.offers("dtrain --help che") == "checkpoints\n");
  CHECK(bash.offers("dtrain train -h dev") == "devices\n");
  CHECK(bash.offers("dtrain --num-w") == "--num-workers\n");
  CHECK(bash.offers("dtrain train --heartbeat-i") == "--heartbeat-interval\n");
  CHECK(bash.offers("dtrain simulate --lat") == "--latency\n");
  CHECK(bash.offers("dtrain --launcher ''") == "local\nssh\nmpi\nslurm\nsge\nyarn\nkubernetes\nprint\n");
  CHECK(bash.offers("dtrain --kv-store dist_g") == "dist_gsync\n");
  CHECK(bash.offers("dtrain -n 2 --on-nan = s") == "skip\n");
  CHECK(bash.offers("dtrain --on-nan =") == "fail\nskip\n");
  CHECK(bash.offers("dtrain bench train --phase inf") == "inference\n");
  CHECK(bash.offers("dtrain --data-train tr") == "train.rec\n");
  CHECK(bash.offers("dtrain --data-dir ''") == "images\n");
  CHECK(bash.offers("dtrain data index tr") == "train.rec\n");
  CHECK(bash.offers("dtrain --lr ''") == "\n");
}

TEST_CASE("the completion scripts and the manual page have every flag", "[cmd]") {
  std::string bash = output_of({DTRAIN_EXE, "completion", "bash"});
  std::replace(bash.begin(), bash.end(), '"', ' ');
  const std::string zsh = output_of({DTRAIN_EXE, "completion", "zsh"});
  const std::string fish = output_of({DTRAIN_EXE, "completion", "fish"});
  const std::string page = output_of({DTRAIN_EXE, "man"});
  for (const job::FlagHelp& flag : job::training_flags().flag_helps()) {
    for (const std::string& name : flag.names) {
      INFO(name);
      CHECK(bash.find(" " + name + " ") != std::string::npos);
      CHECK(zsh.find("'*" + name) != std::string::npos);
      CHECK(fish.find((name.size() == 2 ? " -s " : " -l ") + name.substr(name.size() == 2 ? 1 : 2) + " ") !=
            std::string::npos);
      std::string escaped;
      for (const char c : name) escaped += c == '-' ? "\\-" : std::string(1, c);
      CHECK(page.find("\\fB" + escaped + "\\fR") != std::string::npos);
    }
  }
  CHECK_THAT(zsh, Contains("#compdef dtrain") && Contains("'help:"));
  CHECK_THAT(fish, Contains("complete -c dtrain -n '__dtrain_after bench' -a kv -d 'measure how fast") &&
                       Contains("-n '__dtrain_is train' -l on-nan -x -a 'fail skip' -d ") &&
                       Contains("-n '__dtrain_is train' -l config -r -F -d ") &&
                       Contains("-n '__dtrain_is completion' -a 'bash zsh fish'"));
  CHECK_THAT(page, Contains(".SH FLAGS OF DTRAIN BENCH KV") && Contains("\\fB75\\fR") && Contains("dtrain help"));
  for (const job::Section& section : job::sections()) {
    INFO(section.subject);
    CHECK_THAT(page, Contains("\\fB" + section.subject + "\\fR"));
    CHECK_THAT(zsh, Contains(" " + section.subject + " "));
    CHECK_THAT(fish, Contains(" " + section.subject + " "));
  }
}

TEST_CASE("a shell without a completion script is refused", "[cmd]") {
  const test::Ended tcsh =
      test::run({DTRAIN_EXE, "completion", "tcsh"}, {.deadline_s = 30, .directory = "", .environment = {}});
  CHECK(tcsh.code == 2);
  CHECK_THAT(tcsh.output, Contains("'tcsh'") && Contains("bash, zsh, fish"));
}

}  // namespace dtrain
