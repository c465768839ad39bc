#include "cuda/kernels/input.h"

#include "images/augmentation/augment.h"
#include "support.h"

namespace dtrain::cuda::test {

namespace {

struct Images {
  Extent e;  // [n, c, h, w]
  std::vector<images::Image> images;
  std::vector<uint8_t> pixels = {}, mirrored = {};
};

Images draw(const Extent& e) {
  RandomStream random(4, Use::kTest);
  Images p{.e = e, .images = std::vector<images::Image>(static_cast<size_t>(e.n))};
  for (images::Image& image : p.images) {
    image.resize(static_cast<int>(e.h), static_cast<int>(e.w), static_cast<int>(e.c));
    for (uint8_t& pixel : image.pixels) pixel = static_cast<uint8_t>(random.below(256));
    p.pixels.insert(p.pixels.end(), image.pixels.begin(), image.pixels.end());
    p.mirrored.push_back(static_cast<uint8_t>(random.below(2)));
  }
  return p;
}

images::AugmentOptions options_for(const Extent& e, bool mean_image) {
  images::AugmentOptions options{.image = {e.c, e.h, e.w}, .scale = 0.017f};
  for (int64_t k = 0; k < e.c; k++) {
    options.mean.push_back(123.68f - 7.1f * static_cast<float>(k));
    options.std.push_back(1.5f + static_cast<float>(k));
  }
  if (mean_image) {
    options.mean_image =
        std::make_shared<const std::vector<float>>(normals(static_cast<size_t>(e.c * e.h * e.w), 6, 120));
  }
  return options;
}

// The augmenter's result for the same images on the host, NCHW.
Floats augmented(const Images& p, images::AugmentOptions options) {
  Floats all;
  for (size_t i = 0; i < p.images.size(); i++) {
    options.mirror = p.mirrored[i] != 0;
    const images::Augmenter augmenter(options);
    Floats one(static_cast<size_t>(p.e.c * p.e.h * p.e.w));
    RandomStream unused(0, Use::kTest);
    images::Augmenter::Scratch scratch;
    images::WholeImage image(p.images[i]);
    REQUIRE(augmenter.apply(image, unused, scratch, one));
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

// NCHW to NHWC, with zeros for the additional channels.
Floats stored_order(const Extent& e, int64_t stored, const Floats& planar) {
  Floats out(static_cast<size_t>(pixels(e) * stored));
  int64_t pixel = 0;
  for (int64_t n = 0; n < e.n; n++) {
    for (int64_t h = 0; h < e.h; h++) {
      for (int64_t w = 0; w < e.w; w++, pixel++) {
        for (int64_t c = 0; c < e.c; c++) out[static_cast<size_t>(pixel * stored + c)] = planar[e.at(n, c, h, w)];
      }
    }
  }
  return out;
}

struct Bytes {
  explicit Bytes(const std::vector<uint8_t>& values) : memory(values.size()) {
    std::memcpy(memory.at(0), values.data(), values.size());
  }
  [[nodiscard]] const uint8_t* data() const { return static_cast<const uint8_t*>(memory.at(0)); }
  DeviceMemory memory;
};

Floats normalised(const Images& p, const images::AugmentOptions& options, Type type, int64_t stored) {
  const Extent& e = p.e;
  Floats factor;
  for (const float std : options.std) factor.push_back(options.scale / std);
  const Bytes from(p.pixels), mirrored(p.mirrored);
  const Array means = floats(options.mean), factors = floats(factor), out(type, pixels(e) * stored);
  const bool by_image = options.mean_image != nullptr;
  const Array image = floats(by_image ? *options.mean_image : Floats{0});
  image_input({.n = e.n,
               .h = e.h,
               .w = e.w,
               .channels = e.c,
               .stored_channels = stored,
               .pixels = from.data(),
               .blue_first = true,
               .mirrored = mirrored.data(),
               .mean = by_image ? nullptr : means.floats(),
               .mean_image = by_image ? image.floats() : nullptr,
               .factor = factors.floats(),
               .type = type,
               .out = out.data()},
              nullptr);
  return out.get();
}

}  // namespace

TEST_CASE("images become the same floats as in the augmenter, to the bit", "[cuda]") {
  for (const Extent& e : {Extent{3, 3, 7, 5}, Extent{2, 1, 28, 28}, Extent{2, 4, 6, 9}, Extent{2, 3, 32, 32}}) {
    const Images p = draw(e);
    for (const bool mean_image : {false, true}) {
      const images::AugmentOptions options = options_for(e, mean_image);
      const Floats expected = augmented(p, options);
      for (const int64_t stored : {e.c, int64_t{4}, int64_t{8}}) {
        for (const Type type : kTypes) {
          INFO(to_text(e) << " to " << stored << " channels of type " << static_cast<int>(type));
          const Results results = in_all_orders([&] { return Results{normalised(p, options, type, stored)}; });
          REQUIRE(same_bits(results[0], rounded(type, stored_order(e, stored, expected))));
        }
      }
    }
  }
}

TEST_CASE("normalized numbers are reordered and get channels of zeros", "[cuda]") {
  for (const Extent& e : {Extent{3, 3, 7, 5}, Extent{2, 1, 28, 28}, Extent{1, 6, 5, 5}}) {
    const Floats x = normals(e.count(), 1);
    for (const int64_t stored : {e.c, std::max<int64_t>(e.c, 4), e.c + 2, int64_t{8}}) {
      for (const Type type : kTypes) {
        const Results results = in_all_orders([&] {
          const Array from = floats(x), out(type, pixels(e) * stored);
          planar_input({.n = e.n,
                        .h = e.h,
                        .w = e.w,
                        .channels = e.c,
                        .stored_channels = stored,
                        .x = from.floats(),
                        .type = type,
                        .out = out.data()},
                       nullptr);
          return Results{out.get()};
        });
        REQUIRE(same_bits(results[0], rounded(type, stored_order(e, stored, x))));
      }
    }
  }
}

TEST_CASE("input reports the bytes that it moves, and refuses what it does not support", "[cuda]") {
  const Extent e{2, 3, 4, 4};
  const emulator::Session session;
  normalised(draw(e), options_for(e, true), Type::kFloat16, 4);
  CHECK(session.records()[0].bytes == 32 * (3 + 8) + 3 * 16 * 4);
  const Array out(Type::kFloat32, 1024);
  CHECK_THROWS_AS(
      image_input({.n = 1, .h = 2, .w = 2, .channels = 2, .stored_channels = 2, .out = out.data()}, nullptr),
      CheckFailed);
  CHECK_THROWS_AS(
      image_input({.n = 1, .h = 2, .w = 2, .channels = 1, .stored_channels = 3, .out = out.data()}, nullptr),
      CheckFailed);
}

}  // namespace dtrain::cuda::test
