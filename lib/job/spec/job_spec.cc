#include "job/spec/job_spec.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <utility>

#include "base/file.h"
#include "base/printable.h"
#include "job/flags/rows.h"

namespace dtrain::job {

namespace {

using job::format_value;
using job::parse_value;
using job::range_of;

Result<> parse_value(std::string_view text, Interval& interval) {
  const size_t colon = std::min(text.find(':'), text.size());
  if (colon == text.size()) return fail(Code::kUsage, "'{}' does not have the form BEGIN:END", text);
  DT_TRY_VOID(parse_value(text.substr(0, colon), interval.begin));
  DT_TRY_VOID(parse_value(text.substr(colon + 1), interval.end));
  if (interval.begin > interval.end) return fail(Code::kUsage, "the beginning is larger than the end in '{}'", text);
  return {};
}

std::optional<NumberRange> range_of(const Interval& interval) {
  return NumberRange{static_cast<double>(interval.begin), static_cast<double>(interval.end)};
}

// Reads a number or interval of records, steps or workers.
template <class Value>
Result<> parse_counted(std::string_view text, Value& value) {
  DT_TRY_VOID(parse_value(text, value));
  return check_range(text, *range_of(value), 0, kExamplesMax);
}

std::string format_value(const Interval& interval) {
  return fmt::format("{}:{}", interval.begin, interval.end);
}

// A key that is not a flag.
struct FilledKey {
  std::string_view name;
  std::function<Result<>(JobSpec&, std::string_view)> set;
  std::function<std::string(const JobSpec&)> get;
};

FilledKey number_key(std::string_view name, int64_t JobSpec::*member) {
  const int64_t unknown = JobSpec{}.*member;
  return {name,
          [member, unknown](JobSpec& spec, std::string_view text) -> Result<> {
            if (text != "auto") return parse_counted(text, spec.*member);
            spec.*member = unknown;
            return {};
          },
          [member, unknown](const JobSpec& spec) {
            return spec.*member == unknown ? std::string("auto") : format_value(spec.*member);
          }};
}

// A list with one value per worker, by rank.
template <class Value>
FilledKey list_key(std::string_view name, std::vector<Value> JobSpec::*member) {
  return {name,
          [member](JobSpec& spec, std::string_view text) -> Result<> {
            (spec.*member).clear();
            if (text == "auto") return {};
            for (const std::string_view part : split_list(text)) {
              DT_TRY_VOID(parse_counted(part, (spec.*member).emplace_back()));
            }
            return {};
          },
          [member](const JobSpec& spec) {
            std::vector<std::string> parts;
            for (const Value& value : spec.*member) parts.push_back(format_value(value));
            return parts.empty() ? std::string("auto") : fmt::format("{}", fmt::join(parts, ","));
          }};
}

const std::vector<FilledKey>& filled_keys() {
  static const std::vector<FilledKey> keys = {
      {"mean-image", [](JobSpec& spec, std::string_view text) { return parse_value(text, spec.mean_image); },
       [](const JobSpec& spec) { return format_value(spec.mean_image); }},
      {"label-list", [](JobSpec& spec, std::string_view text) { return parse_value(text, spec.label_list); },
       [](const JobSpec& spec) { return format_value(spec.label_list); }},
      number_key("records-train", &JobSpec::records_train),
      number_key("records-val", &JobSpec::records_val),
      list_key("groups", &JobSpec::groups),
      list_key("shares", &JobSpec::shares),
      list_key("batches", &JobSpec::batches),
      {"placement-table",
       [](JobSpec& spec, std::string_view text) -> Result<> {
         spec.placement = text == "auto" ? "" : text;
         return {};
       },
       [](const JobSpec& spec) { return spec.placement.empty() ? "auto" : spec.placement; }},
  };
  return keys;
}

using Entries = std::map<std::string, std::string>;

Entries entries_of(const JobSpec& spec) {
  Flags holder;  // the rows are bound to Flags, so `spec.flags` must be copied into one
  holder.job = spec.flags;
  Entries entries;
  for (const Row& row : training_flags().rows()) {
    if (row.scope == Scope::kJob) entries[row.name] = row.bind.get(holder);
  }
  for (const FilledKey& key : filled_keys()) entries[std::string(key.name)] = key.get(spec);
  return entries;
}

constexpr std::string_view kDirectoryKey = "working-directory";

// A text to parse, and its name in error messages.
struct NamedText {
  std::string_view text;
  const std::string& name;

  // The error "NAME:LINE: KEY: MESSAGE", where LINE is the line of the key.
  [[nodiscard]] tl::unexpected<Error> wrong(std::string_view key, const std::string& message) const {
    const std::string lines = fmt::format("\n{}", text);
    const size_t place = std::min(lines.find(fmt::format("\n{} = ", key)), lines.size());
    const auto end = lines.begin() + static_cast<std::ptrdiff_t>(place);
    return fail(Code::kUsage, "{}:{}: {}: {}", name, 1 + std::count(lines.begin(), end, '\n'), printable(key), message);
  }
};

// Removes the flags of the process from `entries` and returns them.
Result<Remembered> take_remembered(const NamedText& source, Entries& entries) {
  Remembered remembered;
  Flags holder;
  for (const Row& row : rows_that_may_be_stored()) {
    const auto entry = entries.find(row.name);
    if (entry == entries.end() || !is_remembered(row.name)) continue;
    std::string value = entry->second;
    const Result<> valid = FlagTable<Flags>::set(row, value, holder);
    if (!valid) return source.wrong(row.name, valid.error().message);
    remembered.values[row.name] = std::move(value);
    entries.erase(entry);
  }
  const auto directory = entries.find(std::string(kDirectoryKey));
  if (directory == entries.end()) return remembered;
  remembered.directory = directory->second;
  entries.erase(directory);
  return remembered;
}

Result<Entries> read_lines(std::string_view text, const std::string& name = "JobSpec") {
  Entries entries;
  for (size_t begin = 0, line = 1; begin < text.size(); line++) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view content = text.substr(begin, end - begin);
    const size_t equals = content.find(" = ");
    if (equals == std::string_view::npos) {
      return fail(Code::kUsage, "{}:{}: '{}' does not have the form 'key = value'", name, line, printable(content));
    }
    const std::string key(content.substr(0, equals));
    if (!entries.emplace(key, content.substr(equals + 3)).second) {
      return fail(Code::kUsage, "{}:{}: the key '{}' is given twice", name, line, printable(key));
    }
    begin = end + 1;
  }
  return entries;
}

std::vector<std::string> differing_keys(const Entries& a, const Entries& b) {
  Entries lines;
  std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), std::inserter(lines, lines.end()));
  std::vector<std::string> keys;  // each once, because `lines` has one entry per key
  for (const auto& [key, value] : lines) keys.push_back(key);
  return keys;
}

// Removes `key` from `entries` and passes its value to `set`.
template <class Set>
Result<> take(const NamedText& source, Entries& entries, const std::string& key, const Set& set) {
  const auto entry = entries.find(key);
  if (entry == entries.end()) return fail(Code::kUsage, "{}: the line '{} = ...' is missing", source.name, key);
  const Result<> result = set(entry->second);
  if (!result) return source.wrong(key, result.error().message);
  entries.erase(entry);
  return {};
}

// Restores the old meaning of flags that an older version did not write. Returns the names of those whose default is
// another one now. A text without a working directory has no remembered flags at all.
std::vector<std::string> add_older_flags(Entries& entries) {
  const bool has_remembered = entries.contains(std::string(kDirectoryKey));
  const Flags now;
  std::vector<std::string> changed;
  for (const Row& row : training_flags().rows()) {
    const std::optional<std::string> value = former_value(row.name);
    if (!value || (is_remembered(row.name) && !has_remembered)) continue;
    if (entries.emplace(row.name, *value).second && *value != row.bind.get(now)) changed.push_back(row.name);
  }
  return changed;
}

// A flag that earlier versions wrote and this one does not have.
struct GoneFlag {
  std::string_view name;
  std::optional<std::string_view> off = {};  // the value that asks for what this version does; nullopt: any value
};
constexpr GoneFlag kGoneFlags[] = {
    {"data-cache"},           {"keep-best"},
    {"label-names", ""},      {"lr-min"},
    {"monitor-addr"},         {"namespace"},
    {"lr-patience", "0"},     {"lr-patience-factor"},
    {"patience", "0"},        {"scaled-decoding", "0"},
    {"parallel-environment"}, {"print-for"},
    {"tensorboard"},          {"yarn-url"},
};

// --freeze PATTERN of an earlier version is --lr-mult PATTERN=0.
void freeze_by_rate(Entries& entries) {
  const auto frozen = entries.extract("freeze");
  if (frozen.empty() || frozen.mapped() == "none") return;
  std::string& rates = entries["lr-mult"];
  if (rates == "none") rates.clear();
  for (const std::string_view pattern : split_list(frozen.mapped())) {
    rates += fmt::format("{}{}=0", rates.empty() ? "" : ",", pattern);
  }
}

Result<> drop_gone_flags(const NamedText& source, Entries& entries) {
  freeze_by_rate(entries);
  for (const GoneFlag& flag : kGoneFlags) {
    const auto entry = entries.find(std::string(flag.name));
    if (entry == entries.end()) continue;
    if (flag.off && entry->second != *flag.off) {
      return source.wrong(
          flag.name,
          fmt::format("the run used this flag with the value '{1}', but this version of dtrain no longer has --{0}",
                      flag.name, printable(entry->second)));
    }
    entries.erase(entry);
  }
  return {};
}

// Checks that the lists indexed by rank are either all empty or all have one value per worker: the scheduler fills them
// in together.
Result<> check_lists(const NamedText& source, const JobSpec& spec) {
  const auto check = [&](const char* name, size_t size, bool open) -> Result<> {
    if (open ? size == 0 : std::cmp_equal(size, spec.flags.num_workers)) return {};
    return source.wrong(name,
                        fmt::format("there are {} values, but the job has {} workers", size, spec.flags.num_workers));
  };
  const bool open = spec.shares.empty();
  DT_TRY_VOID(check("shares", spec.shares.size(), open));
  DT_TRY_VOID(check("batches", spec.batches.size(), open));
  return check("groups", spec.groups.size(), open || store_of(spec.flags).scheme != Scheme::kGsp);
}

}  // namespace

JobSpec requested(const Flags& flags) {
  return {
      .flags = flags.job, .mean_image = !flags.data.mean_img.empty(), .label_list = !flags.data.path_imglist.empty()};
}

std::string text(const JobSpec& spec) {
  std::string lines;
  for (const auto& [key, value] : entries_of(spec)) lines += fmt::format("{} = {}\n", key, value);
  return lines;
}

std::string file_text(const JobSpec& spec) {
  std::string lines = text(spec);
  for (const auto& [flag, value] : spec.remembered.values) lines += fmt::format("{} = {}\n", flag, value);
  if (spec.remembered.directory.empty()) return lines;
  return lines + fmt::format("{} = {}\n", kDirectoryKey, spec.remembered.directory);
}

Result<JobSpec> parse_job_spec(std::string_view text, const std::string& name) {
  const NamedText source{text, name};
  DT_TRY(Entries entries, read_lines(text, name));
  JobSpec spec;
  DT_TRY_VOID(drop_gone_flags(source, entries));
  spec.older_flags = add_older_flags(entries);
  Flags holder;
  for (const Row& row : training_flags().rows()) {
    if (row.scope != Scope::kJob) continue;
    DT_TRY_VOID(take(source, entries, row.name,
                     [&](const std::string& value) { return FlagTable<Flags>::set(row, value, holder); }));
  }
  for (const FilledKey& key : filled_keys()) {
    DT_TRY_VOID(
        take(source, entries, std::string(key.name), [&](const std::string& value) { return key.set(spec, value); }));
  }
  DT_TRY(spec.remembered, take_remembered(source, entries));
  if (!entries.empty()) return source.wrong(entries.begin()->first, "this version of dtrain does not know this key");
  spec.flags = holder.job;
  // Versions before 0.9.0 wrote "default" for this rule, whatever the network.
  if (spec.flags.network.initializer == "default") spec.flags.network.initializer = "xavier(gaussian,in,2)";
  // The table of flags accepts any text for kv-store, but store_by_name() throws for one that is not a canonical name.
  const Result<std::string> store = canonical_store_name(spec.flags.scheme.kv_store);
  if (!store) return source.wrong("kv-store", store.error().message);
  spec.flags.scheme.kv_store = *store;
  DT_TRY_VOID(check_lists(source, spec));
  return spec;
}

Result<JobSpec> read_job_spec(const std::string& run_dir) {
  const std::string name = (std::filesystem::path(run_dir) / kJobSpecFile).string();
  DT_TRY(const std::string text, read_file(name));
  return parse_job_spec(text, name);
}

Result<> write_job_spec(const std::string& run_dir, const JobSpec& spec) {
  return write_file_atomic(run_dir + "/" + kJobSpecFile, file_text(spec));
}

uint64_t hash(const JobSpec& spec) {
  uint64_t state = 0xcbf29ce484222325;  // start value of the hash FNV-1a with 64 bits
  for (const char c : text(spec)) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return state;
}

std::vector<std::string> differences(const JobSpec& a, const JobSpec& b) {
  return differing_keys(entries_of(a), entries_of(b));
}

std::vector<std::string> differing_keys(std::string_view a, std::string_view b) {
  const Result<JobSpec> first = parse_job_spec(a), second = parse_job_spec(b);
  if (first && second) return differences(*first, *second);
  return differing_keys(read_lines(a).value_or(Entries{}), read_lines(b).value_or(Entries{}));
}

std::string describe_differences(const JobSpec& run, const JobSpec& here) {
  const Entries of_run = entries_of(run), of_here = entries_of(here);
  std::string text;
  for (const std::string& key : differences(run, here)) {
    text += fmt::format("{}{} (run {}, here {})", text.empty() ? "" : ", ", key, of_run.at(key), of_here.at(key));
  }
  return text;
}

}  // namespace dtrain::job
