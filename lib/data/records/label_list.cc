#include "data/records/label_list.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <set>
#include <system_error>

#include "base/file.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "base/words.h"
#include "data/records/image_list.h"

namespace dtrain::data {
namespace {

constexpr std::string_view kSpace = " \t\r\f\v";

// Removes the text up to the first of `separators` from `rest` and returns it.
std::string_view next_field(std::string_view& rest, std::string_view separators) {
  const size_t end = std::min(rest.find_first_of(separators), rest.size());
  const std::string_view field = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return trimmed(field);
}

bool read_number(std::string_view text, float& value) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

// Appends the labels of a line. Returns what is wrong with the line; empty if nothing is.
std::string read_line(std::string_view line, size_t label_width, uint64_t& id, std::vector<float>& labels) {
  const bool has_tabs = line.find('\t') != std::string_view::npos;
  const std::string_view separators = has_tabs ? "\t" : kSpace;
  const auto fields = static_cast<size_t>(std::ranges::count(line, '\t')) + 1;
  if (has_tabs && fields != label_width + 2) {
    return fmt::format("the line has {} fields, but an id, {} label{} (--label-width) and a path make {}", fields,
                       label_width, label_width == 1 ? "" : "s", label_width + 2);
  }
  std::string_view rest = trimmed(line);
  const std::string_view first = next_field(rest, separators);
  const std::optional<uint64_t> number = parse_list_id(first);
  if (!number) return fmt::format("'{}' is not an id, because it is not a whole number", printable(first));
  id = *number;
  for (size_t i = 0; i < label_width; i++) {
    rest = trimmed(rest);
    const std::string_view field = next_field(rest, separators);
    if (field.empty()) return fmt::format("the line ends before label {} of {} (--label-width)", i + 1, label_width);
    if (!read_number(field, labels.emplace_back()) || !std::isfinite(labels.back())) {
      return fmt::format("'{}' is not a label, because it is not a number", printable(field));
    }
  }
  if (trimmed(rest).empty()) return "there is no path after the labels";
  return {};
}

}  // namespace

Result<std::shared_ptr<const LabelList>> LabelList::parse(std::string_view text, const std::string& name,
                                                          size_t label_width) {
  std::shared_ptr<LabelList> list(new LabelList(name, label_width));
  std::vector<int64_t> line_numbers;
  text = without_byte_order_mark(text);
  for (int64_t number = 1; !text.empty(); number++) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (trimmed(line).empty()) continue;
    uint64_t id = 0;
    const std::string wrong = read_line(line, label_width, id, list->labels_);
    if (!wrong.empty()) return fail(Code::kUsage, "--path-imglist {}: line {}: {}", name, number, wrong);
    list->places_.push_back({id, list->places_.size()});
    line_numbers.push_back(number);
  }
  if (list->places_.empty()) return fail(Code::kUsage, "--path-imglist {}: the list is empty", name);
  DT_TRY_VOID(list->sort(line_numbers));
  return std::shared_ptr<const LabelList>(std::move(list));
}

Result<> LabelList::sort(const std::vector<int64_t>& line_numbers) {
  std::ranges::sort(places_,
                    [](const Place& a, const Place& b) { return a.id != b.id ? a.id < b.id : a.line < b.line; });
  const auto twice = std::ranges::adjacent_find(places_, {}, &Place::id);
  if (twice == places_.end()) return {};
  return fail(Code::kUsage, "--path-imglist {}: line {}: id {} is already in line {}", name_,
              line_numbers[twice[1].line], twice->id, line_numbers[twice->line]);
}

Result<std::shared_ptr<const LabelList>> LabelList::read(const std::string& path, size_t label_width) {
  const Result<std::string> text = read_file(path, kDataBytesMax);
  if (!text) return fail(text.error().code, "--path-imglist {}", text.error().message);
  return parse(*text, path, label_width);
}

std::span<const float> LabelList::find(uint64_t id) const {
  const auto place = std::ranges::lower_bound(places_, id, {}, &Place::id);
  if (place == places_.end() || place->id != id) return {};
  return std::span(labels_).subspan(place->line * label_width_, label_width_);
}

std::optional<int64_t> LabelList::classes() const {
  std::set<float> first;
  for (size_t i = 0; i < labels_.size(); i += label_width_) first.insert(labels_[i]);
  const auto count = static_cast<float>(first.size());
  const bool whole = std::ranges::all_of(first, [](float label) { return label == std::floor(label); });
  if (!whole || *first.begin() != 0 || *first.rbegin() != count - 1) return std::nullopt;
  return static_cast<int64_t>(first.size());
}

uint64_t LabelList::hash() const {
  uint64_t hash = 0xcbf29ce484222325;  // start value of the hash FNV-1a with 64 bits
  const auto take = [&hash](uint64_t word, int bytes) {
    for (int i = 0; i < bytes; i++) hash = (hash ^ (word >> (8 * i) & 0xff)) * 0x100000001b3;
  };
  for (const Place& place : places_) {
    take(place.id, 8);
    for (const float label : find(place.id)) take(std::bit_cast<uint32_t>(label), 4);
  }
  return hash;
}

}  // namespace dtrain::data
