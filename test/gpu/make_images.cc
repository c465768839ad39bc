// make_images mnist|cifar10 FROM OUT: makes the images that the stage train learns. Takes the first 12,000 images of
// MNIST's training set in FROM, or the first 500 of each class of CIFAR-10 in FROM/train/CLASS, decoded from JPEG into
// planes with red first.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/file.h"
#include "data/sources/idx_source.h"
#include "images.h"
#include "images/image.h"

using namespace dtrain;

namespace {

constexpr int64_t kMnist = 12000, kCifarPerClass = 500;

Result<gpu::LabeledImages> mnist(const std::string& directory) {
  DT_TRY(const auto source,
         data::open_idx(directory + "/train-images-idx3-ubyte.gz", directory + "/train-labels-idx1-ubyte.gz"));
  gpu::LabeledImages images{.shape = {1, 28, 28}, .pixels = {}, .labels = {}};
  data::ReadScratch scratch;
  for (int64_t i = 0; i < std::min(kMnist, source->size()); i++) {
    float label = 0;
    DT_TRY_VOID(source->read(i, scratch, {&label, 1}));
    images.labels.push_back(static_cast<uint8_t>(label));
    DT_TRY(const images::Image* image, scratch.decode());
    images.pixels.insert(images.pixels.end(), image->pixels.begin(), image->pixels.end());
  }
  return images;
}

// Converts interleaved blue, green and red to planes of red, green and blue.
void append_planes(const images::Image& image, std::vector<uint8_t>& pixels) {
  for (int c = 2; c >= 0; c--) {
    for (size_t i = static_cast<size_t>(c); i < image.pixels.size(); i += 3) pixels.push_back(image.pixels[i]);
  }
}

// `directory` has the content of cifar10-jpeg.tar.gz: train/CLASS/NNNN.jpg.
Result<gpu::LabeledImages> cifar(const std::string& directory) {
  std::vector<std::string> classes;
  for (const auto& entry : std::filesystem::directory_iterator(directory + "/train")) classes.push_back(entry.path());
  std::ranges::sort(classes);
  gpu::LabeledImages images{.shape = {3, 32, 32}, .pixels = {}, .labels = {}};
  images::ImageDecoder decoder;
  images::Image image;
  for (size_t label = 0; label < classes.size(); label++) {
    for (int64_t i = 0; i < kCifarPerClass; i++) {
      const std::string path = fmt::format("{}/{:04}.jpg", classes[label], i);
      DT_TRY(const std::string file, read_file(path));
      DT_TRY_VOID(decoder.decode({reinterpret_cast<const uint8_t*>(file.data()), file.size()}, 3, image), "in {}",
                  path);
      if (image.height != 32 || image.width != 32) return fail(Code::kData, "{}: not 32 x 32", path);
      append_planes(image, images.pixels);
      images.labels.push_back(static_cast<uint8_t>(label));
    }
  }
  return images;
}

Result<> make(const std::string& set, const std::string& from, const std::string& to) {
  DT_TRY(const gpu::LabeledImages images, set == "mnist" ? mnist(from) : cifar(from));
  return gpu::write_images(to, set, images);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string set = argc == 4 ? argv[1] : "";
  if (set != "mnist" && set != "cifar10") {
    fmt::print(stderr, "usage: make_images mnist|cifar10 FROM OUT\n");
    return 2;
  }
  const Result<> made = catching([&] { return make(set, argv[2], argv[3]); });
  if (!made) fmt::print(stderr, "{}\n", made.error().text());
  return made ? 0 : 7;
}
