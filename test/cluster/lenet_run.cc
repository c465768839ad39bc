#include "cluster/lenet_run.h"

#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/random.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/must.h"

namespace dtrain::test {
namespace {

constexpr size_t kSide = 28;

std::string big_endian(uint32_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift);
  return text;
}

std::string image(size_t number) {
  RandomStream random(11, Use::kTest, number);
  std::string pixels(kSide * kSide, '\0');
  for (size_t i = 0; i < pixels.size(); i++) {
    const double light = i / kSide / 2 == number % 10 ? 128 : 0;
    pixels[i] = static_cast<char>(light + random.uniform(0, 100));
  }
  return pixels;
}

}  // namespace

void write_mnist(const std::string& directory, const std::vector<size_t>& numbers) {
  std::vector<Image> images;
  for (const size_t number : numbers) images.push_back({image(number), static_cast<char>(number % 10)});
  write_mnist(directory, images);
}

void write_mnist(const std::string& directory, const std::vector<Image>& images) {
  std::filesystem::create_directories(directory);
  const auto count = static_cast<uint32_t>(images.size());
  std::string pixels = big_endian(0x803) + big_endian(count) + big_endian(kSide) + big_endian(kSide);
  std::string labels = big_endian(0x801) + big_endian(count);
  for (const Image& image : images) {
    pixels += image.pixels;
    labels += image.label;
  }
  for (const char* part : {"train", "t10k"}) {
    must(write_file_atomic(directory + "/" + part + "-images-idx3-ubyte", pixels));
    must(write_file_atomic(directory + "/" + part + "-labels-idx1-ubyte", labels));
  }
}

std::vector<NamedArray> train_lenet(const TempDir& dir, const std::string& name, const std::vector<std::string>& more) {
  const std::string run_dir = dir.path(name + "/run");
  std::filesystem::remove_all(run_dir);
  const std::vector<std::string> command =
      command_line(dtrain_program(), "--network lenet --data-dir", dir.path(name),
                   "--shuffle 0 --lr 0.05 --num-epochs 1 --seed 5 --threads 1 --run-dir", run_dir, more);
  const Ended end = run(command, {.deadline_s = 60, .directory = dir.path(), .environment = {}});
  INFO(end.output);
  REQUIRE(end.code == 0);
  return must(read_ndarray_file(run_dir + "/lenet-0001.params"));
}

double relative_difference(const std::vector<NamedArray>& a, const std::vector<NamedArray>& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0;
  double length = 0;
  for (size_t key = 0; key < b.size(); key++) {
    REQUIRE(a[key].values.size() == b[key].values.size());
    for (size_t i = 0; i < b[key].values.size(); i++) {
      difference += std::pow(a[key].values[i] - b[key].values[i], 2);
      length += std::pow(b[key].values[i], 2);
    }
  }
  REQUIRE(length > 0);
  return std::sqrt(difference / length);
}

bool same_bits(const std::vector<NamedArray>& a, const std::vector<NamedArray>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t key = 0; key < b.size(); key++) {
    if (a[key].values != b[key].values) return false;
  }
  return true;
}

}  // namespace dtrain::test
