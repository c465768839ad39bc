#include "tools/safetensors.h"

#include "base/json.h"

namespace dtrain::tools {

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
  for (size_t byte = 0; byte < sizeof(uint64_t); byte++) {
    length += static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * byte) & 0xff);
  }
  return length + text;
}

}  // namespace dtrain::tools
