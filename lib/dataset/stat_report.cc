// DataStat::text() and DataStat::json() of stat.h.
#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "dataset/stat.h"

namespace dtrain::dataset {
namespace {

// Pairs of a value and its number of occurrences, in ascending order of the values.
using Counts = std::vector<std::pair<int64_t, int64_t>>;

struct Spread {
  int64_t least = 0, median = 0, most = 0;
};

Spread spread_of(Counts counts) {
  if (counts.empty()) return {};
  std::ranges::sort(counts);
  int64_t all = 0;
  for (const auto& [value, count] : counts) all += count;
  Spread spread{counts.front().first, counts.back().first, counts.back().first};
  int64_t seen = 0;
  for (const auto& [value, count] : counts) {
    seen += count;
    if (2 * seen < all) continue;
    spread.median = value;
    break;
  }
  return spread;
}

template <class Take>
Spread spread_of_sizes(const DataStat& stat, const Take& take) {
  Counts counts;
  for (const auto& [size, count] : stat.sizes) counts.emplace_back(take(size.first, size.second), count);
  return spread_of(std::move(counts));
}

struct SizeSpreads {
  Spread height, width, shorter;
};
SizeSpreads size_spreads(const DataStat& stat) {
  return {spread_of_sizes(stat, [](int64_t height, int64_t) { return height; }),
          spread_of_sizes(stat, [](int64_t, int64_t width) { return width; }),
          spread_of_sizes(stat, [](int64_t height, int64_t width) { return std::min(height, width); })};
}

Spread spread_of_labels(const DataStat& stat) {
  Counts counts;
  for (const auto& [label, count] : stat.labels) counts.emplace_back(count, 1);
  return spread_of(std::move(counts));
}

// The most frequent sizes (`most` at most), the most frequent one first.
std::vector<std::pair<std::pair<int64_t, int64_t>, int64_t>> frequent_sizes(const DataStat& stat, size_t most) {
  std::vector<std::pair<std::pair<int64_t, int64_t>, int64_t>> sizes(stat.sizes.begin(), stat.sizes.end());
  std::ranges::stable_sort(sizes, std::greater(), [](const auto& size) { return size.second; });
  if (sizes.size() > most) sizes.resize(most);
  return sizes;
}

std::string labels_text(const DataStat& stat) {
  constexpr size_t kListed = 20;
  const Spread spread = spread_of_labels(stat);
  const bool whole =
      std::ranges::all_of(stat.labels, [](const auto& label) { return label.first == std::floor(label.first); });
  std::string text = fmt::format("labels: {} different labels from {} to {}; images per label: {} to {}, median {}\n",
                                 stat.labels.size(), stat.labels.begin()->first, stat.labels.rbegin()->first,
                                 spread.least, spread.most, spread.median);
  if (!whole) text += "  some labels are not whole numbers\n";
  if (stat.label_counts.size() != 1 || stat.label_counts.begin()->first != 1) {
    for (const auto& [labels, count] : stat.label_counts) {
      text += fmt::format("  {} images have {} label{}\n", count, labels, labels == 1 ? "" : "s");
    }
  }
  if (stat.labels.size() > kListed) return text;
  for (const auto& [label, count] : stat.labels) text += fmt::format("  label {}: {}\n", label, count);
  return text;
}

std::string sizes_text(const DataStat& stat) {
  constexpr size_t kListed = 5;
  const SizeSpreads spreads = size_spreads(stat);
  std::string text = fmt::format(
      "sizes: height {} to {}, median {}; width {} to {}, median {}; shorter edge {} to {}, median {}\n",
      spreads.height.least, spreads.height.most, spreads.height.median, spreads.width.least, spreads.width.most,
      spreads.width.median, spreads.shorter.least, spreads.shorter.most, spreads.shorter.median);
  for (const auto& [size, count] : frequent_sizes(stat, kListed)) {
    text += fmt::format("  {} x {} (height x width): {}\n", size.first, size.second, count);
  }
  if (stat.sizes.size() > kListed) text += fmt::format("  and {} other sizes\n", stat.sizes.size() - kListed);
  return text;
}

}  // namespace

std::string DataStat::text() const {
  std::string text;
  for (const File& file : files) text += fmt::format("{}: {} records, {} bytes\n", file.path, file.records, file.bytes);
  if (images > 0) {
    text += fmt::format("images: {}, {:.1f} kB each on average\n", images,
                        1e-3 * static_cast<double>(image_bytes) / static_cast<double>(images));
    text += labels_text(*this) + sizes_text(*this) + "formats:\n";
    for (const auto& [format, count] : formats) text += fmt::format("  {}: {}\n", format, count);
    for (const auto& [orientation, count] : orientations) {
      text += fmt::format("  with EXIF orientation {}: {}\n", orientation, count);
    }
  }
  text += fmt::format("broken records: {}\n", broken_count);
  for (const Broken& one : broken) text += fmt::format("  {}: offset {}: {}\n", one.file, one.offset, one.reason);
  if (broken_count > static_cast<int64_t>(broken.size())) {
    text += fmt::format("  and {} more\n", broken_count - static_cast<int64_t>(broken.size()));
  }
  return text;
}

std::string DataStat::json() const {
  const auto object_of = [](const Spread& spread) {
    return nlohmann::ordered_json{{"min", spread.least}, {"median", spread.median}, {"max", spread.most}};
  };
  nlohmann::ordered_json object;
  object["files"] = nlohmann::ordered_json::array();
  for (const File& file : files) {
    object["files"].push_back({{"path", file.path}, {"bytes", file.bytes}, {"records", file.records}});
  }
  object["pictures"] = images;
  object["picture_bytes"] = image_bytes;
  object["classes"] = labels.size();
  object["pictures_per_class"] = object_of(spread_of_labels(*this));
  object["labels"] = nlohmann::ordered_json::object();
  for (const auto& [label, count] : labels) object["labels"][fmt::format("{}", label)] = count;
  object["labels_per_picture"] = nlohmann::ordered_json::object();
  for (const auto& [number, count] : label_counts) object["labels_per_picture"][fmt::format("{}", number)] = count;
  const SizeSpreads spreads = size_spreads(*this);
  object["height"] = object_of(spreads.height);
  object["width"] = object_of(spreads.width);
  object["shorter_edge"] = object_of(spreads.shorter);
  object["formats"] = formats;
  object["exif_orientations"] = nlohmann::ordered_json::object();
  for (const auto& [value, count] : orientations) object["exif_orientations"][fmt::format("{}", value)] = count;
  object["broken_records"] = broken_count;
  object["broken"] = nlohmann::ordered_json::array();
  for (const Broken& one : broken) {
    object["broken"].push_back({{"file", one.file}, {"offset", one.offset}, {"reason", one.reason}});
  }
  return json_text(object);
}

}  // namespace dtrain::dataset
