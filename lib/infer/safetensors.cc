#include "infer/safetensors.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "base/words.h"

namespace dtrain::infer {
namespace {

using nlohmann::ordered_json;

constexpr uint64_t kHeaderBytesMax = 100 << 20;  // the same limit as in the format's own reader
constexpr size_t kLengthBytes = 8;

// The name of a type in dtrain, if it has one; for example, "F32" is float32.
std::string type_name(const std::string& type) {
  return type == "F32" ? "float32" : type == "F16" ? "float16" : type == "BF16" ? "bfloat16" : lower_case(type);
}

Result<ArrayInfo> array_of(const std::string& name, const ordered_json& entry, uint64_t data_bytes) {
  const auto is_count = [](const ordered_json& part) { return part.is_number_unsigned(); };
  const bool is_array = entry.is_object() && entry.contains("dtype") && entry["dtype"].is_string() &&
                        entry.contains("shape") && entry["shape"].is_array() &&
                        std::ranges::all_of(entry["shape"], is_count) && entry.contains("data_offsets") &&
                        entry["data_offsets"].is_array() && entry["data_offsets"].size() == 2 &&
                        std::ranges::all_of(entry["data_offsets"], is_count);
  if (!is_array) {
    return fail(Code::kData,
                "the header's entry '{}' does not describe an array: it needs dtype, shape and data_offsets", name);
  }
  if (entry["data_offsets"][1].get<uint64_t>() > data_bytes) {
    return fail(Code::kData, "the file is cut short: array '{}' ends after the end of the file", name);
  }
  ArrayInfo array{name, type_name(entry["dtype"].get<std::string>()), entry["shape"].get<Shape>()};
  DT_TRY_VOID(check_shape(array));
  return array;
}

Result<StoredModel> model_of(const ordered_json& header, uint64_t data_bytes) {
  if (!header.is_object()) return fail(Code::kData, "the header is not a JSON object");
  StoredModel model;
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") {
      DT_TRY(model.arrays.emplace_back(), array_of(name, entry, data_bytes));
      continue;
    }
    if (!entry.is_object()) return fail(Code::kData, "the header's __metadata__ is not a JSON object");
    for (const auto& [key, value] : entry.items()) {
      if (value.is_string()) model.metadata[key] = value.get<std::string>();
    }
  }
  return model;
}

}  // namespace

std::string safetensors_header(const std::vector<const ParameterSpan*>& arrays,
                               const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t at = 0;
  for (const ParameterSpan* array : arrays) {
    const size_t end = at + array->weight.size_bytes();
    header[array->name] = {{"dtype", "F32"}, {"shape", array->shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = json_text(header);
  constexpr size_t kAlignment = 8;
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  std::string length;
  for (size_t byte = 0; byte < kLengthBytes; byte++) {
    length += static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * byte) & 0xff);
  }
  return length + text;
}

Result<StoredModel> read_safetensors(const std::string& path) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) return fail(Code::kNotFound, "cannot read '{}': {}", path, error ? error.message() : "no access");
  std::array<char, kLengthBytes> start = {};
  file.read(start.data(), start.size());
  uint64_t length = 0;
  for (size_t byte = kLengthBytes; byte-- > 0;) length = length << 8 | static_cast<uint8_t>(start[byte]);
  if (!file || length > kHeaderBytesMax || length > bytes - kLengthBytes) {
    return fail(Code::kData, "{}: the file is not a safetensors file, or it is cut short", path);
  }
  std::string text(length, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(length))) {
    return fail(Code::kData, "{}: the header cannot be read", path);
  }
  DT_TRY(StoredModel model, model_of(parse_json<ordered_json>(text), bytes - kLengthBytes - length), "reading {}",
         path);
  return model;
}

}  // namespace dtrain::infer
