#include "dataset/packing/list_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "base/random.h"

namespace dtrain::dataset {

Result<> check(const ListDivision& division) {
  if (division.chunks < 1) return fail(Code::kUsage, "{} chunks: must be at least 1", division.chunks);
  const double train = division.train_ratio, test = division.test_ratio;
  if (!(train >= 0 && train <= 1)) return fail(Code::kUsage, "train-ratio {}: must be from 0 to 1", train);
  if (!(test >= 0 && test <= 1)) return fail(Code::kUsage, "test-ratio {}: must be from 0 to 1", test);
  constexpr double kRounding = 1e-9;  // tolerance, because the sum of 0.7 and 0.3 may be slightly above 1
  if (train + test > 1 + kRounding) {
    return fail(Code::kUsage, "train-ratio {} and test-ratio {} sum to more than 1; lower one of them", train, test);
  }
  const double fraction = division.val_fraction;
  if (!(fraction >= 0 && fraction < 1)) {
    return fail(Code::kUsage, "val-fraction {}: must be from 0 to below 1", fraction);
  }
  if (fraction > 0 && (division.chunks > 1 || train < 1 || test > 0)) {
    return fail(Code::kUsage,
                "val-fraction divides the images of each class, while chunks, train-ratio and test-ratio divide the "
                "whole list; give either val-fraction or the others");
  }
  return {};
}

namespace {

class ListDivider {
 public:
  ListDivider(const std::vector<data::ListEntry>& entries, const ListDivision& division)
      : entries_(entries),
        division_(division),
        chunk_(static_cast<int64_t>(entries.size() + static_cast<size_t>(division.chunks) - 1) / division.chunks),
        test_(static_cast<int64_t>(static_cast<double>(chunk_) * division.test_ratio)),
        train_(static_cast<int64_t>(static_cast<double>(chunk_) * division.train_ratio)) {}

  void add_chunk(int number, std::vector<NamedList>& lists) const {
    const std::string chunk = division_.chunks > 1 ? fmt::format("_{}", number) : "";
    const int64_t begin = number * chunk_;
    if (division_.train_ratio == 1.0) {
      lists.push_back({chunk, slice(begin, begin + chunk_, begin + chunk_)});
      return;
    }
    const int64_t end = begin + chunk_;
    if (division_.test_ratio > 0) lists.push_back({chunk + "_test", slice(begin, begin + test_, end)});
    if (division_.train_ratio + division_.test_ratio < 1.0)
      lists.push_back({chunk + "_val", slice(begin + test_ + train_, end, end)});
    lists.push_back({chunk + "_train", slice(begin + test_, begin + test_ + train_, end)});
  }

 private:
  // The entries [from, to), without those that do not exist or are not before `end`.
  [[nodiscard]] std::vector<data::ListEntry> slice(int64_t from, int64_t to, int64_t end) const {
    const int64_t last = std::min(end, static_cast<int64_t>(entries_.size()));
    from = std::min(from, last);
    to = std::clamp(to, from, last);
    return {entries_.begin() + from, entries_.begin() + to};
  }

  const std::vector<data::ListEntry>& entries_;
  const ListDivision& division_;
  int64_t chunk_, test_, train_;
};

// The number of validation images in a class of `count` images.
int64_t validation_count(int64_t count, double fraction) {
  if (count < 2) return 0;
  return std::clamp<int64_t>(std::llround(static_cast<double>(count) * fraction), 1, count - 1);
}

// Chooses the entries for validation: the result has one value for each entry.
std::vector<bool> choose_validation(const std::vector<data::ListEntry>& entries, const ListDivision& division) {
  std::map<float, std::vector<size_t>> classes;  // the entries of each label, sorted by id
  std::vector<size_t> by_id(entries.size());
  std::iota(by_id.begin(), by_id.end(), size_t{0});
  std::ranges::sort(by_id, {}, [&](size_t i) { return entries[i].id; });
  for (const size_t i : by_id) classes[entries[i].labels.front()].push_back(i);
  std::vector<bool> chosen(entries.size());
  for (auto& [label, members] : classes) {
    RandomStream random(division.seed, Use::kListDivision, std::bit_cast<uint32_t>(label));
    const auto count = static_cast<int64_t>(members.size());
    for (int64_t i = 0; i < validation_count(count, division.val_fraction); i++) {
      std::swap(members[static_cast<size_t>(i)], members[static_cast<size_t>(i + random.below(count - i))]);
      chosen[members[static_cast<size_t>(i)]] = true;
    }
  }
  return chosen;
}

std::vector<NamedList> divide_classes(const std::vector<data::ListEntry>& entries, const ListDivision& division) {
  std::vector<NamedList> lists{{"_train", {}}, {"_val", {}}};
  const std::vector<bool> for_validation = choose_validation(entries, division);
  for (size_t i = 0; i < entries.size(); i++) lists[for_validation[i] ? 1 : 0].entries.push_back(entries[i]);
  return lists;
}

// The beginning of the next line after the one that contains byte `at`.
size_t next_line(std::string_view text, size_t at) {
  const size_t line_end = text.find_first_of("\r\n", at);
  return std::min(text.find_first_not_of("\r\n", line_end), text.size());
}

}  // namespace

std::vector<NamedList> divide_list(const std::vector<data::ListEntry>& entries, const ListDivision& division) {
  if (division.val_fraction > 0) return divide_classes(entries, division);
  std::vector<NamedList> lists;
  const ListDivider divider(entries, division);
  for (int number = 0; number < division.chunks; number++) divider.add_chunk(number, lists);
  return lists;
}

std::string_view part_of_lines(std::string_view text, int part, int count) {
  const size_t step = (text.size() + static_cast<size_t>(count) - 1) / static_cast<size_t>(count);
  const auto cut = [&](int number) {
    const size_t at = std::min(step * static_cast<size_t>(number), text.size());
    return at == 0 || at == text.size() ? at : next_line(text, at);
  };
  const size_t begin = cut(part), end = cut(part + 1);
  return text.substr(begin, end - begin);
}

}  // namespace dtrain::dataset
