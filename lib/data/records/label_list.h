// Labels indexed by record id, from a list in the format of im2rec's lists: --path-imglist.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::data {

// Immutable; threads may share it.
class LabelList {
 public:
  // Every line must have an id, `label_width` labels and a further field, usually a path. A line with a TAB is split at
  // its TABs and must have exactly these fields; any other line is split at blanks, and the rest of the line is the
  // path. Empty lines are skipped. `name` is the name of the file, for messages. Code::kUsage, with the number of the
  // line.
  static Result<std::shared_ptr<const LabelList>> parse(std::string_view text, const std::string& name,
                                                        size_t label_width);
  static Result<std::shared_ptr<const LabelList>> read(const std::string& path, size_t label_width);

  // The labels of a record; empty if the list does not have its id.
  [[nodiscard]] std::span<const float> find(uint64_t id) const;
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] size_t size() const { return places_.size(); }
  [[nodiscard]] size_t label_width() const { return label_width_; }
  // The number of classes k, if the first labels of all lines are integers and exactly the values 0 to k-1 occur.
  [[nodiscard]] std::optional<int64_t> classes() const;
  // Two lists with the same labels for the same ids have the same hash. The order of the lines does not matter, and
  // neither do the paths in them.
  [[nodiscard]] uint64_t hash() const;

 private:
  struct Place {
    uint64_t id;
    size_t line;  // number of the line, from 0; its labels begin at line * label_width_
  };
  LabelList(std::string name, size_t label_width) : name_(std::move(name)), label_width_(label_width) {}
  Result<> sort(const std::vector<int64_t>& line_numbers);

  std::string name_;
  size_t label_width_;
  std::vector<Place> places_;  // where the labels of each id are; sorted by id
  std::vector<float> labels_;
};

}  // namespace dtrain::data
