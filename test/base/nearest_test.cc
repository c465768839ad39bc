#include "base/nearest.h"

#include <vector>

#include "support/catch.h"

using namespace dtrain;

TEST_CASE("edit distance counts insertions, deletions, substitutions and swaps", "[base]") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("lenet", "lenet") == 0);
  CHECK(edit_distance("LeNet", "lenet") == 0);
  CHECK(edit_distance("lennet", "lenet") == 1);
  CHECK(edit_distance("lent", "lenet") == 1);
  CHECK(edit_distance("lemet", "lenet") == 1);
  CHECK(edit_distance("netwrok", "network") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

// The nearest name wins, and the first of equally near ones. A word that resembles no name gets none.
TEST_CASE("the nearest name is suggested, and no name if none is near", "[base]") {
  const std::vector<std::string> names = {"--batch-size", "--lr", "--lr-factor", "--network", "--wd"};
  CHECK(nearest("--netwrok", names) == "--network");
  CHECK(nearest("--batch_size", names) == "--batch-size");
  CHECK(nearest("--lr-facter", names) == "--lr-factor");
  CHECK(nearest("--lf", names) == "--lr");
  CHECK(nearest("--l", names) == "--lr");
  CHECK(!nearest("--staleness", names));
  CHECK(!nearest("", names));
  CHECK(!nearest("--network", {}));
  // Abbreviations.
  const std::vector<std::string> types = {"float32", "float16", "bfloat16"};
  CHECK(nearest("bf16", types) == "bfloat16");
  CHECK(nearest("fp16", types) == "float16");
  CHECK(!nearest("16", types));
  CHECK(!nearest("int8", types));
}

TEST_CASE("a name of one megabyte is near no other name, and this is found quickly", "[base]") {
  const std::vector<std::string> candidates(1000, "batch-size");
  CHECK_FALSE(nearest(std::string(1 << 20, 'b'), candidates));
  CHECK(nearest("batch-sise", std::vector<std::string>{std::string(1 << 20, 'b'), "batch-size"}) == "batch-size");
}
