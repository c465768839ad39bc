#include <cmath>
#include <sstream>

#include "data/make_images.h"
#include "images/augmentation/augment.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::images;
using dtrain::test::must;

namespace {

constexpr int kEdge = 96;

// Made by test/bench/peers/mxnet_batches.py --golden, with MXNet 1.9.1: of each image height, width, seed and the
// edge that the shorter edge is resized to (0: none), then red, green and blue of nine places.
constexpr const char* kOfMxnet = R"(
120 160 1 0
 160.812 168.812 201.812 172.812 143.312 213.812 184.812 155.312 188.312
 172.812 215.312 157.812 184.812 183.562 169.812 196.812 145.562 181.812
 184.812 199.312 213.812 196.812 211.312 188.312 208.812 192.062 144.062
120 160 1 100
 209.875 187.938 164.312 148.062 191.125 199.062 180.875 157.438 144.188
 149.188 188.438 166.625 180.25 196.438 166.25 208.188 157.812 200.5
 179.875 189.375 198.562 208 192.812 160.75 149.25 158.75 167.875
80 60 2 0
 191.812 170.938 150.25 178.938 158.25 141.75 166.875 146.125 199.938
 163.062 197.688 186.625 149.5 211.312 173.062 138.812 199.625 161.5
 147.438 176.062 210.562 213 163.25 207.375 206.688 151.062 195.312
80 60 2 100
 197.312 176.125 155.062 180.125 159 137.875 165.125 143.875 201.5
 165.75 180.938 189.75 148.5 210.5 172.5 136.75 195.875 157.812
 141.062 177.188 222.188 216.188 161.375 206.5 200.5 145.625 190.875
)";

// What training without augmentation makes of the image.
std::vector<float> batch_row(int height, int width, int seed, int resize) {
  AugmentOptions options{.image = {3, kEdge, kEdge}, .mean = {0, 0, 0}, .std = {1, 1, 1}};
  options.distortion.resize = resize;
  const Image image = test::gradient_image(height, width, 3, seed);
  WholeImage whole(image);
  RandomStream random(1, Use::kTest);
  Augmenter::Scratch scratch;
  std::vector<float> out(size_t{3} * kEdge * kEdge);
  must(Augmenter(options).apply(whole, random, scratch, out));
  return out;
}

float mean_of_square(const std::vector<float>& image, int k, int y, int x) {
  float sum = 0;
  for (int i = 0; i < 16; i++) sum += image[static_cast<size_t>((k * kEdge + y + i / 4) * kEdge + x + i % 4)];
  return sum / 16;
}

}  // namespace

// A place is the mean of 4 x 4 numbers. A crop that is off by one pixel differs by four or more.
TEST_CASE("without augmentation, images become the floats that MXNet makes of them", "[images]") {
  std::istringstream words(kOfMxnet);
  int cases = 0;
  for (int height = 0, width = 0, seed = 0, resize = 0; words >> height >> width >> seed >> resize; cases++) {
    INFO(height << " x " << width << ", resize " << resize);
    const std::vector<float> image = batch_row(height, width, seed, resize);
    for (int place = 0; place < 9; place++) {
      for (int k = 0; k < 3; k++) {
        float theirs = -1;
        words >> theirs;
        CHECK(std::abs(mean_of_square(image, k, 16 + 28 * (place / 3), 17 + 28 * (place % 3)) - theirs) <= 0.01f);
      }
    }
  }
  CHECK(cases == 4);
}
