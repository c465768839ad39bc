// --network FILE-symbol.json: the job's name for the file, and what is refused before the file is understood.

#include "job/resolve/network_file.h"
#include "base/file.h"
#include "job/parse.h"
#include "job/spec/job_spec.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace dtrain::job {

using Catch::Contains;
using test::TempDir;

TEST_CASE("a network's file has a name that depends on its bytes and not on its directory", "[job]") {
  CHECK(network_of_file("a/net-symbol.json", "x") == network_of_file("net-symbol.json", "x"));
  CHECK(network_of_file("net-symbol.json", "x") != network_of_file("net-symbol.json", "y"));
  CHECK(network_label(network_of_file("a/b/net-symbol.json", "x")) == "net");
  CHECK(network_label(network_of_file("a/net.json", "x")) == "net");
  CHECK(network_label("resnet-50@mxnet-g") == "resnet-50@mxnet-g");
  CHECK(is_network_file("net.json"));
  CHECK(is_network_file("./net"));
  CHECK_FALSE(is_network_file("resnet-50"));
}

TEST_CASE("processes with the same network file under different paths have the same job", "[job]") {
  const TempDir dir;
  for (const char* name : {"one-symbol.json", "other-symbol.json"}) {
    REQUIRE(write_file_atomic(dir.path(name), name[1] == 'n' ? "{}" : "[]"));
  }
  const Flags flags = parsed({"--network", dir.path("one-symbol.json")});
  CHECK(flags.job.network.file == dir.path("one-symbol.json"));
  CHECK_THAT(text(requested(flags)), Contains("network = one:") && !Contains(dir.path("")));
  CHECK(*read_network_file(flags.job.network) == "{}");
  CHECK(default_run_dir(flags, {}).starts_with("runs/one-"));

  // The run is resumed where another file lies.
  NetworkFlags moved = flags.job.network;
  moved.file = dir.path("other-symbol.json");
  CHECK_THAT(read_network_file(moved).error().text(), Contains("is not the job's network"));
  moved.file.clear();
  CHECK_THAT(read_network_file(moved).error().text(), Contains("give this process --network FILE"));
}

TEST_CASE("a network file that is absent, a directory or contradicted by flags is refused", "[job]") {
  const TempDir dir;
  REQUIRE(write_file_atomic(dir.path("net-symbol.json"), "{}"));
  CHECK_THAT(refused({"--network", dir.path("absent.json")}, Code::kNotFound), Contains("no such file"));
  CHECK_THAT(refused({"--network", dir.path("")}), Contains("this is a directory"));
  CHECK_THAT(refused({"--network", dir.path("net-symbol.json"), "--num-layers", "50"}), Contains("--num-layers"));
}

}  // namespace dtrain::job
