// Every flag, value and subcommand that messages and help texts tell the user to type must exist.
#include <algorithm>
#include <array>
#include <filesystem>
#include <regex>
#include <set>

#include "base/file.h"
#include "job/flags/rows.h"
#include "support/catch.h"
#include "support/process.h"

namespace dtrain {

namespace {

const std::vector<std::vector<std::string>> kTools = {
    {"im2rec"},       {"data", "synth"},  {"data", "index"}, {"data", "get"},
    {"data", "stat"}, {"bench", "train"}, {"bench", "dlbs"}, {"bench", "input"},
    {"bench", "kv"},  {"parse-log"},      {"plan"},          {"simulate"},
    {"ps"},           {"kill"},           {"completion"},    {"man"},
    {"score"},        {"predict"},        {"info"},          {"export"},
    {"set-rate"},     {"doctor"},         {"report"},        {"plot"},
    {"help"}};

std::set<std::string> matches(const std::string& text, const std::string& expression) {
  const std::regex pattern(expression);
  std::set<std::string> all;
  for (std::sregex_iterator i(text.begin(), text.end(), pattern), end; i != end; ++i) all.insert((*i)[1]);
  return all;
}

std::string help_of(std::vector<std::string> words) {
  words.insert(words.begin(), DTRAIN_EXE);
  words.emplace_back("-h");
  const test::Ended ended = test::run(words, {.deadline_s = 30, .directory = {}, .environment = {}});
  INFO(ended.output);
  REQUIRE(ended.code == 0);
  return ended.output;
}

// The string literals of a source file that contain a blank.
std::vector<std::string> sentences(const std::filesystem::path& source) {
  const std::string text = *read_file(source);
  std::vector<std::string> all;
  bool in_literal = false;
  std::string literal;
  for (size_t i = 0; i < text.size(); i++) {
    const bool in_comment = !in_literal && text.compare(i, 2, "//") == 0;
    if (in_comment) i = std::min(text.find('\n', i), text.size());
    if (!in_literal && text.compare(i, 3, "'\"'") == 0) i += 2;
    if (i >= text.size()) break;
    if (in_literal && text[i] == '\\') {
      literal += text[++i];
    } else if (text[i] == '"') {
      if (in_literal && literal.find(' ') != std::string::npos) all.push_back(literal);
      literal.clear();
      in_literal = !in_literal;
    } else if (in_literal) {
      literal += text[i];
    }
  }
  return all;
}

std::vector<std::filesystem::path> sources() {
  std::vector<std::filesystem::path> all;
  for (const char* directory : {"lib", "cmd"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::string(DTRAIN_SOURCES) + "/" + directory)) {
      // These rooms call ssh, tar, srun and others, which have flags of their own.
      const bool of_others =
          std::ranges::any_of(std::array{"/launch/", "/package/", "/cluster/"},
                              [&](const char* room) { return entry.path().string().find(room) != std::string::npos; });
      const std::string type = entry.path().extension();
      if (!of_others && (type == ".cc" || type == ".h")) all.push_back(entry.path());
    }
  }
  return all;
}

}  // namespace

TEST_CASE("every subcommand and subcommand group has a help text, and --help all lists all", "[cmd]") {
  const std::string all = help_of({"--help", "all"});
  for (const std::vector<std::string>& tool : kTools) {
    const std::string name = tool.size() == 1 ? tool[0] : tool[0] + " " + tool[1];
    INFO(name);
    CHECK(all.find("  dtrain " + name + " ") != std::string::npos);
    CHECK(help_of(tool).find("dtrain " + name) != std::string::npos);
  }
  CHECK(help_of({"data"}).find("dtrain data synth") != std::string::npos);
  CHECK(help_of({"bench"}).find("dtrain bench kv") != std::string::npos);
}

TEST_CASE("messages name only flags, values and subcommands that exist", "[cmd]") {
  constexpr const char* kFlag = "(--[a-z][a-z0-9-]*)";
  std::set<std::string> known = matches(help_of({"train"}), kFlag);
  for (const std::vector<std::string>& tool : kTools) known.merge(matches(help_of(tool), kFlag));
  known.merge(matches(help_of({"examine-host"}), kFlag));
  known.insert({"--help", "--version", "--connect"});                                      // the last one is of agents
  known.insert({"--rm", "--shm-size", "--ulimit", "--ipc", "--entrypoint", "--workdir"});  // of docker
  known.insert("--nodelist");                                                              // of sbatch
  // Of the style sheet of a report.
  known.insert({"--paper", "--text", "--muted", "--line", "--band", "--bad", "--warn", "--focus"});
  std::set<std::string> not_there;
  for (const job::Row& row : job::training_flags().rows()) {
    for (const std::string& value : row.later) not_there.insert(row.spelling() + " " + value);
  }
  size_t checked = 0;
  for (const std::filesystem::path& source : sources()) {
    for (const std::string& sentence : sentences(source)) {
      INFO(source << ": " << sentence);
      for (const std::string& flag : matches(sentence, kFlag)) {
        INFO(flag);
        if (!flag.ends_with('-')) CHECK(known.contains(flag));  // "--min-{0}" is completed at run time
        checked++;
      }
      for (const std::string& words : not_there) CHECK(sentence.find(words) == std::string::npos);
    }
  }
  CHECK(checked > 200);
}

}  // namespace dtrain
