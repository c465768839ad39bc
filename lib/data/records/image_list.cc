#include "data/records/image_list.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>

#include "base/utf8.h"
#include "base/words.h"

namespace dtrain::data {

std::string list_text(const std::vector<ListEntry>& entries) {
  std::string text;
  for (const ListEntry& entry : entries) {
    text += fmt::format("{}", entry.id);
    for (const float label : entry.labels) text += fmt::format("\t{:f}", label);
    text += '\t' + entry.path + '\n';
  }
  return text;
}

std::optional<uint64_t> parse_list_id(std::string_view text) {
  const size_t point = text.find('.');
  if (point != std::string_view::npos) {
    if (text.find_first_not_of('0', point + 1) != std::string_view::npos) return std::nullopt;
    text = text.substr(0, point);
  }
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  uint64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return negative ? uint64_t{0} - id : id;
}

namespace {

constexpr std::string_view kBlanks = " \t\r\f\v";

std::string_view strip(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

// Removes the text up to the first of `separators` from `rest` and returns it.
std::string_view take_field(std::string_view& rest, std::string_view separators) {
  const size_t end = std::min(rest.find_first_of(separators), rest.size());
  const std::string_view field = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return field;
}

std::optional<float> parse_label(std::string_view text) {
  float label = 0;
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  const bool is_number = !text.empty() && error == std::errc() && end == text.data() + text.size();
  return is_number && std::isfinite(label) ? std::optional(label) : std::nullopt;
}

// The fields of a line. If the line is split at TABs, all fields between the first and the last are labels; if it is
// split at blanks, `label_width` fields are.
struct ListLine {
  std::string_view id, path;
  std::vector<std::string_view> labels;
};

ListLine split_tabs(std::string_view line) {
  std::vector<std::string_view> fields;
  for (line = strip(line); !line.empty();) fields.push_back(strip(take_field(line, "\t")));
  if (fields.size() < 3) return {};
  return {.id = fields.front(), .path = fields.back(), .labels = {fields.begin() + 1, fields.end() - 1}};
}

ListLine split_blanks(std::string_view line, size_t label_width) {
  ListLine split;
  line = strip(line);
  split.id = take_field(line, kBlanks);
  while (split.labels.size() < label_width) {
    line = strip(line);
    split.labels.push_back(take_field(line, kBlanks));
  }
  split.path = strip(line);
  return split;
}

std::optional<ListEntry> make_entry(const ListLine& line) {
  ListEntry entry;
  const auto number = parse_list_id(line.id);
  if (!number || line.labels.empty() || line.path.empty()) return std::nullopt;
  entry.id = *number;
  for (const std::string_view text : line.labels) {
    const auto label = parse_label(text);
    if (!label) return std::nullopt;
    entry.labels.push_back(*label);
  }
  entry.path = line.path;
  return entry;
}

// Parses a list. If `label_width` is 0, a line with TABs may have any number of labels, and a line with blanks has one.
Result<std::vector<ListEntry>> parse_lines(std::string_view text, const std::string& name, size_t label_width,
                                           const Log& log) {
  std::vector<ListEntry> entries;
  text = without_byte_order_mark(text);
  for (int64_t number = 1; !text.empty(); number++) {
    const std::string_view line = take_field(text, "\n");
    if (strip(line).empty()) continue;
    const ListLine split = line.find('\t') != std::string_view::npos
                               ? split_tabs(line)
                               : split_blanks(line, std::max(label_width, size_t{1}));
    auto entry = make_entry(split);
    const bool has_label = !split.labels.empty() && parse_list_id(split.id) && parse_label(split.labels[0]);
    if (label_width > 0 && has_label && (!entry || entry->labels.size() != label_width)) {
      return fail(Code::kData, "{}: line {} does not have {} labels (label_width={}) and a path", name, number,
                  label_width, label_width);
    }
    if (entry) {
      entries.push_back(std::move(*entry));
    } else {
      log.warn("{}: skipped line {}: it is not 'index TAB label TAB path'", name, number);
    }
  }
  return entries;
}

}  // namespace

std::vector<ListEntry> parse_list(std::string_view text, const std::string& name, const Log& log) {
  return *parse_lines(text, name, 0, log);
}

Result<std::vector<ListEntry>> parse_list_of_width(std::string_view text, const std::string& name, int label_width,
                                                   const Log& log) {
  return parse_lines(text, name, static_cast<size_t>(label_width), log);
}

namespace {

namespace fs = std::filesystem;

bool has_extension(const fs::path& path, const std::vector<std::string>& extensions) {
  return std::ranges::find(extensions, lower_case(path.extension().string())) != extensions.end();
}

// True if the path is read from a list exactly as it was written.
bool fits_list(std::string_view path) {
  return path.find_first_of("\t\n\r") == std::string_view::npos && strip(path) == path;
}

class DirectoryWalk {
 public:
  DirectoryWalk(std::string root, const DirectoryFilter& filter) : root_(std::move(root)), filter_(filter) {
    std::error_code absent;
    real_root_ = fs::canonical(root_, absent);
  }

  Result<> directory(const fs::path& path, bool recursive) {
    std::vector<fs::path> files, directories;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(path, error)) {
      std::error_code broken_link;
      if (entry.is_directory(broken_link)) {
        if (filter_.enters(entry)) directories.push_back(entry.path());
      } else if (filter_.takes(entry)) {
        files.push_back(entry.path());
      }
    }
    if (error) return fail(Code::kNotFound, "{}: {}", path.string(), error.message());
    std::ranges::sort(files);
    add(path, files, recursive);
    if (!recursive) return {};
    std::ranges::sort(directories);
    for (const fs::path& inner : directories) DT_TRY_VOID(enter(inner));
    return {};
  }

  ImageDirectory take() { return std::move(found_); }

 private:
  void add(const fs::path& path, const std::vector<fs::path>& files, bool recursive) {
    if (files.empty()) return;
    const auto label = recursive ? static_cast<int>(found_.labels.size()) : 0;
    if (recursive) found_.labels.emplace_back(path.lexically_relative(root_).string(), label);
    for (const fs::path& file : files) {
      found_.entries.push_back(
          {found_.entries.size(), {static_cast<float>(label)}, file.lexically_relative(root_).string()});
    }
  }

  // Enters a directory. Links to a directory that is being walked are not followed, because they would cause an endless
  // loop; nor are links to a directory above the root, because the files around the root would be listed.
  Result<> enter(const fs::path& path) {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (error || is_in(real_root_, real) || std::ranges::find(inside_, real) != inside_.end()) return {};
    inside_.push_back(real);
    Result<> done = directory(path, true);
    inside_.pop_back();
    return done;
  }

  fs::path root_, real_root_;
  const DirectoryFilter& filter_;
  std::vector<fs::path> inside_;
  ImageDirectory found_;
};

}  // namespace

bool is_in(const fs::path& path, const fs::path& directory) {
  return std::ranges::mismatch(directory, path).in1 == directory.end();
}

Result<ImageDirectory> list_directory(const std::string& root, bool recursive, const DirectoryFilter& filter) {
  DirectoryWalk walk(root, filter);
  DT_TRY_VOID(walk.directory(root, recursive));
  return walk.take();
}

Result<ImageDirectory> list_directory(const std::string& root, bool recursive,
                                      const std::vector<std::string>& extensions,
                                      const std::function<void(const fs::directory_entry&)>& pass_over) {
  std::vector<std::string> left_out;
  const auto takes = [&](const fs::directory_entry& entry) {
    std::error_code broken_link;
    if (!entry.is_regular_file(broken_link) || !has_extension(entry.path(), extensions)) {
      if (pass_over) pass_over(entry);
      return false;
    }
    if (fits_list(entry.path().lexically_relative(root).string())) return true;
    left_out.push_back(entry.path().string());
    return false;
  };
  DT_TRY(ImageDirectory found,
         list_directory(root, recursive, {.enters = [](const auto&) { return true; }, .takes = takes}));
  std::ranges::sort(left_out);
  found.left_out = std::move(left_out);
  return found;
}

namespace {

// MT19937 as Python seeds it: init_by_array. Source: Matsumoto and Nishimura, mt19937ar.c (2002).
class PythonRandom {
 public:
  explicit PythonRandom(uint32_t seed) {
    state_[0] = 19650218;
    for (uint32_t i = 1; i < kSize; i++) state_[i] = 1812433253U * mixed(i) + i;
    uint32_t i = 1;
    for (size_t k = 0; k < kSize; k++) {
      state_[i] = (state_[i] ^ mixed(i) * 1664525U) + seed;
      i = next_index(i);
    }
    for (size_t k = 0; k < kSize - 1; k++) {
      state_[i] = (state_[i] ^ mixed(i) * 1566083941U) - i;
      i = next_index(i);
    }
    state_[0] = 0x80000000U;
  }

  // Uniform in [0, n): draws as many random bits as n has, repeatedly until the number is below n.
  int64_t below(int64_t n) {
    const int bits = std::bit_width(static_cast<uint64_t>(n));
    int64_t drawn = n;
    while (drawn >= n) drawn = next() >> (32 - bits);
    return drawn;
  }

 private:
  static constexpr uint32_t kSize = 624;
  static constexpr uint32_t kShift = 397;

  [[nodiscard]] uint32_t mixed(uint32_t i) const { return state_[i - 1] ^ state_[i - 1] >> 30; }
  uint32_t next_index(uint32_t i) {
    if (i + 1 < kSize) return i + 1;
    state_[0] = state_[kSize - 1];
    return 1;
  }
  uint32_t next() {
    if (used_ == kSize) twist();
    uint32_t y = state_[used_++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680U;
    y ^= y << 15 & 0xefc60000U;
    return y ^ y >> 18;
  }
  void twist() {
    for (uint32_t i = 0; i < kSize; i++) {
      const uint32_t y = (state_[i] & 0x80000000U) | (state_[(i + 1) % kSize] & 0x7fffffffU);
      state_[i] = state_[(i + kShift) % kSize] ^ y >> 1 ^ ((y & 1) != 0 ? 0x9908b0dfU : 0U);
    }
    used_ = 0;
  }

  std::array<uint32_t, kSize> state_{};
  uint32_t used_ = kSize;
};

}  // namespace

std::vector<int64_t> python_shuffle(int64_t n) {
  DT_CHECK(n < int64_t{1} << 32, "cannot shuffle {} items: the limit is 2^32 - 1", n);
  constexpr uint32_t kSeed = 100;
  PythonRandom random(kSeed);
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = n - 1; i > 0; i--)
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(random.below(i + 1))]);
  return order;
}

}  // namespace dtrain::data
