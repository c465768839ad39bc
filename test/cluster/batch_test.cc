// Two workers with batches of b are one process with batches of 2b, to the rounding of the sums (distributed.md 3.2):
// the same records in each step, which for one process means that the workers' batches take turns in its file.
#include <catch2/catch.hpp>

#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/random.h"
#include "cluster/loopback_job.h"
#include "support/must.h"
#include "tensor/ndarray_file.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

constexpr size_t kSide = 28;
constexpr size_t kBatch = 16;  // of each of two workers
constexpr size_t kSteps = 20;
constexpr size_t kShare = kBatch * kSteps;

std::string big_endian(uint32_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift);
  return text;
}

// Pictures that something can be learned from: noise with a bar where the label says.
std::string picture(size_t number) {
  RandomStream random(11, Use::kTest, number);
  std::string pixels(kSide * kSide, '\0');
  for (size_t i = 0; i < pixels.size(); i++) {
    const double light = i / kSide / 2 == number % 10 ? 128 : 0;
    pixels[i] = static_cast<char>(light + random.uniform(0, 100));
  }
  return pixels;
}

// MNIST's files with these records in this order.
void write_mnist(const std::string& directory, const std::vector<size_t>& numbers) {
  std::filesystem::create_directories(directory);
  const auto count = static_cast<uint32_t>(numbers.size());
  std::string images = big_endian(0x803) + big_endian(count) + big_endian(kSide) + big_endian(kSide);
  std::string labels = big_endian(0x801) + big_endian(count);
  for (const size_t number : numbers) {
    images += picture(number);
    labels += static_cast<char>(number % 10);
  }
  for (const char* part : {"train", "t10k"}) {
    must(write_file_atomic(directory + "/" + part + "-images-idx3-ubyte", images));
    must(write_file_atomic(directory + "/" + part + "-labels-idx1-ubyte", labels));
  }
}

std::vector<NamedArray> train(const TempDir& dir, const std::string& name, const std::vector<std::string>& more) {
  std::vector<std::string> command = {dtrain_program(),
                                      "--network",
                                      "lenet",
                                      "--data-dir",
                                      dir.path(name),
                                      "--shuffle",
                                      "0",
                                      "--lr",
                                      "0.05",
                                      "--num-epochs",
                                      "1",
                                      "--seed",
                                      "5",
                                      "--threads",
                                      "1",
                                      "--run-dir",
                                      dir.path(name + "/run")};
  command.insert(command.end(), more.begin(), more.end());
  const Ended end = run(command, {.deadline_s = 60, .directory = dir.path(), .environment = {}});
  INFO(end.output);
  REQUIRE(end.code == 0);
  return must(read_ndarray_file(dir.path(name) + "/run/lenet-0001.params"));
}

}  // namespace

TEST_CASE("two workers make the weights of one process with twice the batch", "[batch]") {
  std::vector<size_t> in_shares(2 * kShare);
  std::vector<size_t> in_turns(2 * kShare);
  for (size_t i = 0; i < 2 * kShare; i++) {
    const size_t step = i / (2 * kBatch);
    const size_t worker = i / kBatch % 2;
    in_shares[i] = i;
    in_turns[i] = worker * kShare + step * kBatch + i % kBatch;
  }
  const TempDir dir;
  write_mnist(dir.path("shares"), in_shares);
  write_mnist(dir.path("turns"), in_turns);
  const auto job =
      train(dir, "shares", {"-n", "2", "-s", "2", "--kv-store", "dist_sync", "--batch-size", std::to_string(kBatch)});
  const auto one = train(dir, "turns", {"--kv-store", "local", "--batch-size", std::to_string(2 * kBatch)});

  REQUIRE(job.size() == one.size());
  double difference = 0;
  double length = 0;
  for (size_t key = 0; key < one.size(); key++) {
    REQUIRE(job[key].values.size() == one[key].values.size());
    for (size_t i = 0; i < one[key].values.size(); i++) {
      difference += std::pow(job[key].values[i] - one[key].values[i], 2);
      length += std::pow(one[key].values[i], 2);
    }
  }
  const double relative = std::sqrt(difference / length);
  INFO("|w-w'|/|w| = " << relative);
  CHECK(length > 0);
  CHECK(relative <= 1e-5);
}
