#include "images/bilinear.h"

#include <cstring>

#include "base/random.h"
#include "data/make_images.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::images;
using dtrain::test::must;

namespace {

Image noise(int height, int width, int channels, RandomStream& random) {
  Image image;
  image.resize(height, width, channels);
  for (uint8_t& pixel : image.pixels) pixel = static_cast<uint8_t>(random.below(256));
  return image;
}

int between(int least, int most, RandomStream& random) {
  return least + static_cast<int>(random.below(most - least + 1));
}

}  // namespace

// OpenCV resizes the whole image; a window of the result is made here from the part of the image that it needs,
// which lies in an image of its own, so that a read beyond it is seen by AddressSanitizer.
TEST_CASE("rows of any part of a resized image are those of OpenCV", "[images]") {
  BilinearMemory memory;
  for (uint64_t seed = 1; seed <= 400; seed++) {
    RandomStream random(seed, Use::kTest);
    const int channels = std::array{1, 3, 4}[static_cast<size_t>(random.below(3))];
    const Image image = noise(between(1, 60, random), between(1, 60, random), channels, random);
    const ImageSize from{image.height, image.width}, to{between(1, 90, random), between(1, 90, random)};
    if (from.height == 2 * to.height && from.width == 2 * to.width) continue;  // OpenCV takes averages there
    const int height = between(1, static_cast<int>(to.height), random);
    const int width = between(1, static_cast<int>(to.width), random);
    const Window wanted{.y = between(0, static_cast<int>(to.height) - height, random),
                        .x = between(0, static_cast<int>(to.width) - width, random),
                        .height = height,
                        .width = width};
    INFO("seed " << seed << ": " << image.height << " x " << image.width << " x " << channels << " to " << to.height
                 << " x " << to.width << ", " << height << " x " << width << " at " << wanted.y << ", " << wanted.x);
    Image expected;
    must(resize_image(image, to.height, to.width, expected));

    const Window needed = BilinearRows::needed(from, to, wanted);
    REQUIRE((needed.y >= 0 && needed.x >= 0));
    REQUIRE((needed.y + needed.height <= image.height && needed.x + needed.width <= image.width));
    Image part;
    part.resize(needed.height, needed.width, channels);
    for (int y = 0; y < part.height; y++) {
      std::memcpy(part.at(y, 0), image.at(needed.y + y, needed.x), static_cast<size_t>(part.width) * channels);
    }
    part.pixels.shrink_to_fit();
    const ImageView view{
        .image = &part, .height = image.height, .width = image.width, .top = needed.y, .left = needed.x};
    BilinearRows rows(view, to, wanted, memory);
    for (int y = 0; y < height; y++) {
      REQUIRE(std::memcmp(rows.row(y), expected.at(wanted.y + y, wanted.x), static_cast<size_t>(width) * channels) ==
              0);
    }
  }
}
