// Each flag is followed to what it changes: a flag that is parsed and then used nowhere fails here.
#include <algorithm>
#include <cstdlib>
#include <set>

#include "data/make_images.h"
#include "effects_file.h"
#include "flag_products.h"
#include "job/flags/rows.h"
#include "support/catch.h"
#include "support/certificates.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using test::must, test::joined, test::Words;

namespace {

// Two labels that a network reads.
constexpr const char* kTwoLabels = R"({"nodes": [
{"op": "null", "name": "data", "inputs": []},
{"op": "null", "name": "a_weight", "inputs": []}, {"op": "null", "name": "a_bias", "inputs": []},
{"op": "FullyConnected", "name": "a", "attrs": {"num_hidden": "10"}, "inputs": [[0,0,0],[1,0,0],[2,0,0]]},
{"op": "null", "name": "a_label", "inputs": []},
{"op": "SoftmaxOutput", "name": "a_softmax", "inputs": [[3,0,0],[4,0,0]]},
{"op": "null", "name": "b_weight", "inputs": []}, {"op": "null", "name": "b_bias", "inputs": []},
{"op": "FullyConnected", "name": "b", "attrs": {"num_hidden": "10"}, "inputs": [[0,0,0],[6,0,0],[7,0,0]]},
{"op": "null", "name": "b_label", "inputs": []},
{"op": "SoftmaxOutput", "name": "b_softmax", "inputs": [[8,0,0],[9,0,0]]}],
"arg_nodes": [0,1,2,4,6,7,9], "heads": [[5,0,0],[10,0,0]], "attrs": {"mxnet_version": ["int", 10901]}})";

void write_files(const test::TempDir& dir) {
  const auto write = [&](const char* name, const std::string& text) { must(write_file_atomic(dir.path(name), text)); };
  write("two-labels.json", kTwoLabels);
  write("list", "0\t1\ta.jpg\n1\t0\tb.jpg\n");
  write("groups", "#0\n#1\n");
  write("one-group", "#0 #1\n");
  write("half-groups", "#0\n");
  write("sharding", "0 0.5\n0.5 1\n");
  write("other-sharding", "0 0.25\n0.25 1\n");
  write("gaps", "0 0.25\n0.5 1\n");
  write("hosts", "10.1.0.1 slots=3\n10.1.0.2 slots=3\n");
  write("env", "FROM_FILE=1\n");
  write("config.toml", "lr = 0.03\n");
  write("token", "0123456789abcdef0123456789abcdef\n");
  write("pretrained-0001.params", "");
  REQUIRE(test::make_certificates(dir.path()));
  // Data of three classes and of four, and a list of five.
  for (const auto& [directory, classes] : {std::pair("records", 3), {"more-records", 4}}) {
    must(make_directories(dir.path(directory)));
    for (const char* file : {"/train.rec", "/test.rec"}) {
      test::write_record_file(dir.path(directory) + file, 6, 28, 28, 3, classes);
    }
  }
  write("labels", "0\t0\ta\n1\t1\tb\n2\t2\tc\n3\t3\td\n4\t4\te\n5\t0\tf\n");
}

// The flags in which a flag is tried: of a job, or, if the context begins with --alone, of a single process; then the
// context.
Words flags_before(const std::string& dir, Words context) {
  Words flags = {"--network", "lenet", "--data-type", "mnist", "--data-dir", dir + "/data",
                 "--seed",    "1",     "--threads",   "4",     "--run-dir",  dir + "/run"};
  if (!context.empty() && context.front() == "--alone") {
    context.erase(context.begin());
  } else {
    flags = joined(flags, {"-n", "2", "-s", "2", "--kv-store", "dist_sync"});
  }
  return joined(flags, context);
}

std::optional<std::string> variable(const std::string& name) {
  if (name == "DTRAIN_TOKEN") return "fedcba9876543210fedcba9876543210";
  return std::nullopt;
}

}  // namespace

// The file names the products that differ, so that deleting the assignment of one product is noticed even if the flag
// changes others too. DTRAIN_REWRITE_GOLDEN=1 writes what differs today; read it as a diff.
TEST_CASE("each training flag changes the products that it is for", "[cmd][flags]") {
  const test::TempDir dir;
  write_files(dir);
  const std::string path = std::string(DTRAIN_CMD_TEST_DIR) + "/training_flags.txt";
  test::EffectsFile file = test::read_effects(path, dir.path());
  std::set<std::string> followed;
  for (test::FlagCase& one : file.lines) {
    INFO("dtrain " << one.line);
    const std::string spelling = one.flag.at(0).substr(0, one.flag[0].find('='));
    const auto row = job::training_flags().find(spelling);
    REQUIRE(row);
    followed.insert(job::training_flags().rows()[*row].name);
    const Words before = flags_before(dir.path(), one.context);
    const auto without = test::products_of(before, variable);
    const auto with = test::products_of(joined(before, one.flag), variable);
    // A flag may also be one that permits something.
    const bool is_permission = !without && with;
    if (one.reason.empty() && !is_permission && (!without || !with)) {
      FAIL_CHECK((without ? with : without).error().text());
      continue;
    }
    Words effects;
    if (is_permission) effects = {"whether it is permitted"};
    if (without && with) effects = test::differences(*without, *with);
    CHECK(effects.empty() == !one.reason.empty());
    if (std::getenv("DTRAIN_REWRITE_GOLDEN") != nullptr) one.effects = effects;
    CHECK(one.effects == effects);
  }
  for (const job::Row& row : job::training_flags().rows()) {
    INFO("--" << row.name << " is not in training_flags.txt");
    CHECK(followed.contains(row.name));
  }
  if (std::getenv("DTRAIN_REWRITE_GOLDEN") != nullptr) must(write_file_atomic(path, file.text()));
}
