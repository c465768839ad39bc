#include "train/checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/crc32c.h"

namespace dtrain::train {
namespace {

constexpr std::string_view kParameter = "arg:";
constexpr std::string_view kStatistic = "aux:";
constexpr std::string_view kState = "state:";
constexpr std::string_view kHeader = "header";

uint32_t checksum(std::string_view bytes) {
  return crc32c(std::as_bytes(std::span(bytes)));
}

uint32_t checksum(const std::vector<NamedArray>& arrays) {
  uint32_t crc = 0;
  for (const NamedArray& array : arrays) {
    crc = crc32c(std::as_bytes(std::span(array.name)), crc);
    crc = crc32c(std::as_bytes(std::span(array.values)), crc);
  }
  return crc;
}

// The arrays of .params. They refer to the view's values.
std::vector<StoredArrayView> params_arrays(const ParameterView& view) {
  std::vector<StoredArrayView> arrays;
  for (const ParameterSpan& p : view.parameters) {
    arrays.push_back({fmt::format("{}{}", kParameter, p.name), p.shape, std::span<const float>(p.weight)});
  }
  for (const ParameterSpan& p : view.statistics) {
    arrays.push_back({fmt::format("{}{}", kStatistic, p.name), p.shape, std::span<const float>(p.weight)});
  }
  return arrays;
}

// A file that is whole on the disk, but not yet in its place.
struct Written {
  AtomicFile file;
  uint32_t checksum = 0;  // of its bytes
};

// Small pieces of the file are collected, and the values of large arrays written from where they are, so that the
// checkpoint is not copied once more.
Result<Written> written_arrays(const std::string& path, std::span<const StoredArrayView> arrays,
                               const AtomicFile::Fault& fault) {
  constexpr size_t kCollected = size_t{1} << 20;
  DT_TRY(AtomicFile file, AtomicFile::create(path, fault));
  uint32_t crc = 0;
  std::string collected;
  DT_TRY_VOID(to_ndarray_bytes(arrays, [&](std::string_view piece) -> Result<> {
    crc = crc32c(std::as_bytes(std::span(piece)), crc);
    if (collected.size() + piece.size() > kCollected) {
      DT_TRY_VOID(file.write(collected));
      collected.clear();
    }
    if (piece.size() >= kCollected) return file.write(piece);
    collected += piece;
    return {};
  }));
  DT_TRY_VOID(file.write(collected));
  DT_TRY_VOID(file.flush());
  return Written{std::move(file), crc};
}

Result<AtomicFile> written_text(const std::string& path, std::string_view text, const AtomicFile::Fault& fault) {
  DT_TRY(AtomicFile file, AtomicFile::create(path, fault));
  DT_TRY_VOID(file.write(text));
  DT_TRY_VOID(file.flush());
  return file;
}

// `path`: where the states are put first.
Result<AtomicFile> written_states(const std::string& path, const CheckpointContent& content, uint32_t params_crc,
                                  const AtomicFile::Fault& fault) {
  CheckpointHeader header = content.header;
  header.params_crc = params_crc;
  header.slots_crc = checksum(content.slots);
  std::vector<std::string> names;
  for (const ParameterSpan& p : content.view.parameters) names.push_back(p.name);
  const std::string json = to_json(header, names);
  const std::span header_bytes(reinterpret_cast<const uint8_t*>(json.data()), json.size());
  std::vector<StoredArrayView> arrays = {
      {std::string(kHeader), {static_cast<int64_t>(json.size())}, std::span<const uint8_t>(header_bytes)}};
  for (const NamedArray& slot : content.slots) {
    arrays.push_back({fmt::format("{}{}", kState, slot.name), slot.shape, std::span<const float>(slot.values)});
  }
  DT_TRY(Written states, written_arrays(path, arrays, fault));
  return std::move(states.file);
}

// Calls `replace`, which puts files in place, under the claim if there is one.
Result<> put_in_place(CheckpointClaim* claim, const std::function<Result<>()>& replace) {
  return claim == nullptr ? replace() : claim->hold(replace);
}

// The path under which states are stored for a moment, because the two files of a checkpoint cannot be replaced in one
// step. It holds the new states until the new .params is in place, or the old states while a checkpoint without states
// replaces them. A checksum in the header of the states identifies the .params that they belong to; a file here that
// belongs to another .params is ignored.
std::string spare_path(const CheckpointName& name) {
  return name.states_path().append(kSpareSuffix);
}

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

Result<> rename_file(const std::string& from, const std::string& to, const AtomicFile::Fault& fault) {
  errno = fault ? fault("rename") : 0;
  if (errno == 0 && ::rename(from.c_str(), to.c_str()) == 0) return {};
  return fail(Code::kData, "cannot write '{}': rename: {}", to, std::strerror(errno));
}

// Moves an array into `checkpoint` and removes the prefix of its name: "arg:" means a parameter, "aux:" a statistic. An
// array without a prefix goes to `without_prefix`; one with another prefix is dropped. See docs/formats.md,
// "Checkpoints".
void sort_in(NamedArray array, Checkpoint& checkpoint) {
  const std::string_view name = array.name;
  const bool parameter = name.starts_with(kParameter);
  const bool statistic = name.starts_with(kStatistic);
  if (!parameter && !statistic) {
    if (name.find(':') == std::string_view::npos) checkpoint.without_prefix.push_back(std::move(array));
    return;
  }
  array.name.erase(0, kParameter.size());
  (statistic ? checkpoint.statistics : checkpoint.parameters).push_back(std::move(array));
}

Result<> parse_params(std::string_view bytes, Checkpoint& checkpoint) {
  DT_TRY(std::vector<StoredArray> arrays, parse_ndarray_bytes(bytes));
  for (StoredArray& array : arrays) {
    auto* values = std::get_if<std::vector<float>>(&array.values);
    if (values == nullptr) return fail(Code::kData, "array '{}' is not float32", array.name);
    if (array.name.empty()) return fail(Code::kData, "the arrays of the file have no names");
    sort_in({std::move(array.name), std::move(array.shape), std::move(*values)}, checkpoint);
  }
  return {};
}

}  // namespace

Result<CheckpointHeader> header_of(const std::vector<StoredArray>& arrays) {
  const auto* json = arrays.empty() ? nullptr : std::get_if<std::vector<uint8_t>>(&arrays[0].values);
  if (json == nullptr || arrays[0].name != kHeader) {
    return fail(Code::kData, "the first array of the file is not a header of bytes");
  }
  return parse_checkpoint_header({reinterpret_cast<const char*>(json->data()), json->size()});
}

namespace {

struct States {
  CheckpointHeader header;
  std::vector<NamedArray> slots;
};

Result<States> parse_states(std::string_view bytes) {
  DT_TRY(std::vector<StoredArray> arrays, parse_ndarray_bytes(bytes));
  States states;
  DT_TRY(states.header, header_of(arrays));
  for (StoredArray& array : std::span(arrays).subspan(1)) {
    auto* values = std::get_if<std::vector<float>>(&array.values);
    if (values == nullptr || !array.name.starts_with(kState)) {
      return fail(Code::kData, "array '{}' is not an optimizer state of type float32", array.name);
    }
    states.slots.push_back({array.name.substr(kState.size()), std::move(array.shape), std::move(*values)});
  }
  if (checksum(states.slots) != states.header.slots_crc)
    return fail(Code::kData, "the checksum of the optimizer's state is wrong");
  return states;
}

// Adds the file's name to an error about its content.
template <class T>
Result<T> in_file(const std::string& path, Result<T> result) {
  if (!result) result.error().message = fmt::format("damaged checkpoint '{}': {}", path, result.error().message);
  return result;
}

// Returns nullopt if the file does not exist.
Result<std::optional<States>> read_states(const std::string& path) {
  Result<std::string> bytes = read_file(path, kDataBytesMax);
  if (!bytes && bytes.error().code == Code::kNotFound) return std::nullopt;
  if (!bytes) return tl::unexpected(bytes.error());
  DT_TRY(States states, in_file(path, parse_states(*bytes)));
  return states;
}

// Returns the states that belong to the .params file with this checksum, or nullopt if there are no states at all.
Result<std::optional<States>> matching_states(const CheckpointName& name, uint32_t params_crc) {
  DT_TRY(std::optional<States> states, read_states(name.states_path()));
  if (states && states->header.params_crc == params_crc) return states;
  DT_TRY(std::optional<States> spare, read_states(spare_path(name)));
  if (spare && spare->header.params_crc == params_crc) return spare;
  if (!states) return std::nullopt;
  return fail(
      Code::kData,
      "damaged checkpoint '{0}': the checksum in '{1}' does not match it; delete '{1}' to start from the weights alone",
      name.params_path(), name.states_path());
}

// Completes an earlier save that failed before its last rename. The states that it left must be renamed before the
// spare name is used again; otherwise a second failure would lose them.
Result<> finish_earlier_save(const CheckpointName& name, const AtomicFile::Fault& fault) {
  if (!exists(spare_path(name))) return {};
  const Result<std::string> params = read_file(name.params_path(), kDataBytesMax);
  const Result<std::optional<States>> spare = read_states(spare_path(name));
  const bool belongs = params && spare && *spare && (*spare)->header.params_crc == checksum(*params);
  return belongs ? rename_file(spare_path(name), name.states_path(), fault) : Result<>{};
}

Result<> replace_both(const CheckpointName& name, AtomicFile states, AtomicFile params,
                      const AtomicFile::Fault& fault) {
  DT_TRY_VOID(states.commit());
  Result<> replaced = params.commit();
  if (!replaced) {
    ::unlink(spare_path(name).c_str());
    return replaced;
  }
  return rename_file(spare_path(name), name.states_path(), fault);
}

Result<> replace_with_params_alone(const CheckpointName& name, AtomicFile params, const AtomicFile::Fault& fault) {
  const bool had_states = exists(name.states_path());
  if (had_states) DT_TRY_VOID(rename_file(name.states_path(), spare_path(name), fault));
  Result<> replaced = params.commit();
  if (replaced) {
    ::unlink(spare_path(name).c_str());
  } else if (had_states) {
    // If this renaming fails too, read_checkpoint finds the states under the spare name.
    static_cast<void>(rename_file(spare_path(name), name.states_path(), fault));
  }
  return replaced;
}

// Returns 12 for "<stem>-0012.params", and nullopt for other names.
std::optional<int64_t> epoch_of(std::string_view file, std::string_view stem) {
  constexpr std::string_view kEnd = ".params";
  if (!file.starts_with(stem) || !file.ends_with(kEnd) || file.size() < stem.size() + 1 + kEnd.size())
    return std::nullopt;
  const std::string_view number = file.substr(stem.size() + 1, file.size() - stem.size() - 1 - kEnd.size());
  int64_t epoch = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), epoch);
  if (file[stem.size()] != '-' || error != std::errc() || end != number.data() + number.size() || number.size() < 4 ||
      epoch < 0) {
    return std::nullopt;
  }
  return epoch;
}

std::optional<int64_t> newest_epoch(const std::string& prefix) {
  const std::filesystem::path path(prefix);
  const std::filesystem::path directory = path.has_parent_path() ? path.parent_path() : ".";
  std::optional<int64_t> newest;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::optional<int64_t> epoch = epoch_of(entry.path().filename().string(), path.filename().string());
    if (epoch) newest = std::max(newest.value_or(0), *epoch);
  }
  return newest;
}

}  // namespace

std::string CheckpointName::stem() const {
  return epoch ? fmt::format("{}-{:04}", prefix, *epoch) : fmt::format("{}-last", prefix);
}

Result<> write_checkpoint(const CheckpointName& name, const CheckpointContent& content, const AtomicFile::Fault& fault,
                          CheckpointClaim* claim) {
  DT_TRY(AtomicFile symbol, written_text(name.prefix + "-symbol.json", content.symbol, fault));
  DT_TRY(Written params, written_arrays(name.params_path(), params_arrays(content.view), fault));
  std::optional<AtomicFile> states;
  if (content.with_states) {
    DT_TRY(AtomicFile file, written_states(spare_path(name), content, params.checksum, fault));
    states.emplace(std::move(file));
  }
  return put_in_place(claim, [&]() -> Result<> {
    DT_TRY_VOID(symbol.commit());
    DT_TRY_VOID(finish_earlier_save(name, fault));
    if (states) return replace_both(name, *std::move(states), std::move(params.file), fault);
    return replace_with_params_alone(name, std::move(params.file), fault);
  });
}

std::string best_params_path(const std::string& prefix) {
  return prefix + "-best.params";
}

Result<> write_best(const std::string& prefix, const std::string& symbol, const ParameterView& view,
                    const AtomicFile::Fault& fault, CheckpointClaim* claim) {
  DT_TRY(AtomicFile symbol_file, written_text(prefix + "-symbol.json", symbol, fault));
  DT_TRY(Written params, written_arrays(best_params_path(prefix), params_arrays(view), fault));
  return put_in_place(claim, [&]() -> Result<> {
    DT_TRY_VOID(symbol_file.commit());
    return params.file.commit();
  });
}

// Removes the states first: weights without states are still a checkpoint, but states alone are not.
void remove_checkpoint(const CheckpointName& name) {
  ::unlink(name.states_path().c_str());
  ::unlink(spare_path(name).c_str());
  ::unlink(name.params_path().c_str());
}

Result<Checkpoint> read_weights(const std::string& params_path) {
  DT_TRY(const std::string bytes, read_file(params_path, kDataBytesMax));
  Checkpoint checkpoint;
  DT_TRY_VOID(in_file(params_path, parse_params(bytes, checkpoint)));
  return checkpoint;
}

Result<Checkpoint> read_checkpoint(const CheckpointName& name) {
  DT_TRY(const std::string bytes, read_file(name.params_path(), kDataBytesMax));
  Checkpoint checkpoint;
  DT_TRY_VOID(in_file(name.params_path(), parse_params(bytes, checkpoint)));
  DT_TRY(std::optional<States> states, matching_states(name, checksum(bytes)));
  if (states) {
    checkpoint.header = std::move(states->header);
    checkpoint.slots = std::move(states->slots);
  }
  return checkpoint;
}

Result<std::optional<CheckpointName>> newest_checkpoint(const std::string& prefix) {
  const std::optional<int64_t> epoch = newest_epoch(prefix);
  const CheckpointName last{prefix, std::nullopt};
  if (::access(last.params_path().c_str(), F_OK) == 0) {
    DT_TRY(const Checkpoint read, read_checkpoint(last));
    // If PREFIX-last has no states, its position is unknown, and it cannot be compared with the checkpoint of an epoch.
    if (read.header && (!epoch || Position{*epoch, 0}.is_before(read.header->position))) return last;
  }
  if (!epoch) return std::nullopt;
  return CheckpointName{prefix, *epoch};
}

}  // namespace dtrain::train
