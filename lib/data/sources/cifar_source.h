// Images in the binary files of CIFAR-10 and CIFAR-100 and in their pickled Python batches (docs/formats.md, "CIFAR
// files").
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "data/sources/image_source.h"

namespace dtrain::data {

// CIFAR-10 has one label for each image. CIFAR-100 has two: the coarse one, from 0 to 19, and the fine one, from 0
// to 99.
enum class Cifar { k10, k100 };
constexpr const char* name_of(Cifar kind) {  // the name that --data-type uses
  return kind == Cifar::k10 ? "cifar10" : "cifar100";
}
constexpr std::optional<Cifar> cifar_named(std::string_view name) {
  for (const Cifar kind : {Cifar::k10, Cifar::k100}) {
    if (name == name_of(kind)) return kind;
  }
  return std::nullopt;
}
constexpr size_t cifar_labels(Cifar kind) {
  return kind == Cifar::k10 ? 1 : 2;
}

// The files of the data set in one of its published forms. They are either in the data directory itself or in the
// directory that this form's archive creates.
struct CifarForm {
  std::string directory;
  std::vector<std::string> train;
  std::string test;
};
// The forms of a data set: the binary form first, then the form for Python.
const std::vector<CifarForm>& cifar_forms(Cifar kind);

// Opens the files. Their images are numbered consecutively in this order. label_width 1: only the last label is read,
// which is the fine one. Code::kNotFound; kData: a file has no images or a wrong size, or a label is out of range, as
// in a file of another kind.
Result<std::shared_ptr<const ImageSource>> open_cifar(Cifar kind, const std::vector<std::string>& paths,
                                                      size_t label_width = 1, const Log& log = Log::silent());

}  // namespace dtrain::data
