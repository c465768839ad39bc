// Runs the documented scripts as jobs: each of their networks takes a step, and one script of each scheme does.

#include "base/file.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

constexpr double kJobSeconds = 60;

// Runs the script with one worker and one server on generated images, for one step.
void check_takes_a_step(const std::string& script) {
  const TempDir dir;
  const std::string path = std::string(DTRAIN_SCRIPTS) + "/" + script;
  const Ended end =
      run(command_line(path,
                       "--launcher local -n 1 -s 1 --benchmark 1 --cpus 1 --num-batches 1 --num-epochs 1 "
                       "--batch-size 2 --save-period 0 --run-dir",
                       dir.path("run")),
          {.deadline_s = kJobSeconds, .directory = dir.path(), .environment = {"DTRAIN=" + dtrain_program()}});
  INFO(script << "\n" << end.output);
  REQUIRE(end.code == 0);
  const std::string summary = must(read_file(dir.path("run/summary.json")));
  INFO(summary);
  CHECK_THAT(summary, Catch::Matchers::Contains("\"epochs\": 1") && Catch::Matchers::Contains("\"samples\": 2"));
}

}  // namespace

TEST_CASE("each network of the scripts takes a step in a job", "[scripts]") {
  for (const char* script : {"bsp_cifar10_inception_small.sh", "bsp_cifar10_3conv.sh", "bsp_cifar10_resnet20.sh",
                             "bsp_cifar10_resnet164.sh", "bsp_cifar100_inception_small.sh", "bsp_cifar100_dfnmr.sh",
                             "bsp_mnist_lenet.sh", "train_mnist.sh", "train_cifar10.sh", "train_cifar100.sh"}) {
    check_takes_a_step(script);
  }
}

TEST_CASE("each network of the scripts for ImageNet takes a step in a job", "[scripts][long]") {
  for (const char* script :
       {"bsp_imagenet_inception.sh", "bsp_imagenet_resnet34.sh", "bsp_imagenet_resnet50.sh", "train_imagenet.sh"}) {
    check_takes_a_step(script);
  }
}

TEST_CASE("the scripts of each scheme take a step in a job", "[scripts]") {
  for (const char* script : {"asp_mnist_lenet.sh", "ssp_mnist_lenet.sh", "gsp_mnist_lenet.sh"}) {
    check_takes_a_step(script);
  }
}
