#include "tensor/ndarray_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "tensor/ndarray_reader.h"

namespace dtrain {
namespace {

constexpr int32_t kDense = 0;
constexpr int32_t kCpu = 1;
constexpr size_t kNamedMax = 20;  // maximum number of arrays that an error names

template <class T>
void put(std::string& out, T value) {
  static_assert(std::is_integral_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// What precedes the values of an array.
std::string array_head(const StoredArrayView& array) {
  std::string out;
  put(out, kNdarrayVersion2);
  put(out, kDense);
  put(out, static_cast<int32_t>(array.shape.size()));
  const size_t count = std::visit([](const auto& values) { return values.size(); }, array.values);
  const int64_t expected = array.shape.empty() ? 0 : element_count(array.shape);
  DT_CHECK(static_cast<int64_t>(count) == expected, "'{}' has {} values, which does not match its shape {}", array.name,
           count, to_string(array.shape));
  if (array.shape.empty()) return out;
  for (const int64_t dimension : array.shape) put(out, dimension);
  put(out, kCpu);
  put(out, int32_t{0});
  put(out, static_cast<int32_t>(array.values.index() == 0 ? StoredType::kFloat32 : StoredType::kUint8));
  return out;
}

std::string_view bytes_of(const StoredArrayView& array) {
  return std::visit(
      [](const auto& values) {
        return std::string_view(reinterpret_cast<const char*>(values.data()), values.size_bytes());
      },
      array.values);
}

// Converts an IEEE 754 binary16 value. The conversion is exact for every value; a NaN remains a NaN.
float from_float16(uint16_t half) {
  const uint32_t sign = uint32_t{half} >> 15 << 31;
  const uint32_t exponent = half >> 10 & 31U;
  const uint32_t fraction = half & 1023U;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

template <class T, class Convert>
std::vector<float> converted(std::string_view bytes, Convert convert) {
  std::vector<float> values(bytes.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); i++) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = convert(value);
  }
  return values;
}

template <class T>
std::vector<T> copied(std::string_view bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

bool is_readable(const StoredEntry& entry) {
  switch (entry.type) {
    case StoredType::kFloat32:
    case StoredType::kFloat64:
    case StoredType::kFloat16:
    case StoredType::kBfloat16:
    case StoredType::kUint8: return entry.layout == StoredLayout::kDense;
    case StoredType::kInt32:
    case StoredType::kInt8:
    case StoredType::kInt64:
    case StoredType::kBool:
    case StoredType::kInt16:
    case StoredType::kUint16:
    case StoredType::kUint32:
    case StoredType::kUint64: break;
  }
  return false;
}

// The array's type must be one that can be read.
std::variant<std::vector<float>, std::vector<uint8_t>> values_of(const StoredEntry& entry) {
  switch (entry.type) {
    case StoredType::kUint8: return copied<uint8_t>(entry.bytes);
    case StoredType::kFloat64:
      return converted<double>(entry.bytes, [](double value) { return static_cast<float>(value); });
    case StoredType::kFloat16: return converted<uint16_t>(entry.bytes, from_float16);
    case StoredType::kBfloat16:
      return converted<uint16_t>(entry.bytes,
                                 [](uint16_t value) { return std::bit_cast<float>(uint32_t{value} << 16); });
    default: return copied<float>(entry.bytes);
  }
}

// Returns an error that names the arrays that cannot be read, up to a limit; no error if there are none.
Result<> refuse_unreadable(const std::vector<StoredEntry>& entries) {
  std::vector<std::string> named;
  for (size_t i = 0; i < entries.size(); i++) {
    if (is_readable(entries[i])) continue;
    const std::string name = entries[i].name.empty() ? fmt::format("number {}", i) : "'" + entries[i].name + "'";
    named.push_back(fmt::format("{} ({})", name, entries[i].type_name()));
  }
  if (named.empty()) return {};
  const size_t shown = std::min(named.size(), kNamedMax);
  return fail(Code::kData,
              "the file contains arrays of types that cannot be read: {}{}; dtrain reads dense arrays of float32, "
              "float64, float16, bfloat16 and uint8 (convert arrays in MXNet before saving: array.astype('float32'), "
              "and array.tostype('default') for sparse arrays)",
              fmt::join(std::span(named).first(shown), ", "),
              shown < named.size() ? fmt::format(" and {} more", named.size() - shown) : "");
}

}  // namespace

Result<> to_ndarray_bytes(std::span<const StoredArrayView> arrays,
                          const std::function<Result<>(std::string_view piece)>& sink) {
  std::string begin;
  put(begin, kNdarrayListMagic);
  put(begin, uint64_t{0});
  put(begin, static_cast<uint64_t>(arrays.size()));
  DT_TRY_VOID(sink(begin));
  for (const StoredArrayView& array : arrays) {
    DT_TRY_VOID(sink(array_head(array)));
    DT_TRY_VOID(sink(bytes_of(array)));
  }
  std::string names;
  put(names, static_cast<uint64_t>(arrays.size()));
  for (const StoredArrayView& array : arrays) {
    put(names, static_cast<uint64_t>(array.name.size()));
    names += array.name;
  }
  return sink(names);
}

std::string to_ndarray_bytes(std::span<const StoredArrayView> arrays) {
  std::string out;
  const auto append = [&out](std::string_view piece) -> Result<> {
    out += piece;
    return {};
  };
  std::ignore = to_ndarray_bytes(arrays, append);
  return out;
}

Result<std::vector<StoredArray>> parse_ndarray_bytes(std::string_view bytes) {
  DT_TRY(std::vector<StoredEntry> entries, find_stored_arrays(bytes));
  DT_TRY_VOID(refuse_unreadable(entries));
  std::vector<StoredArray> arrays;
  arrays.reserve(entries.size());
  for (StoredEntry& entry : entries) {
    arrays.push_back({std::move(entry.name), std::move(entry.shape), values_of(entry)});
  }
  return arrays;
}

Result<std::vector<StoredArray>> read_stored_arrays(const std::string& path) {
  DT_TRY(const std::string bytes, read_file(path, kDataBytesMax));
  Result<std::vector<StoredArray>> arrays = parse_ndarray_bytes(bytes);
  if (!arrays) arrays.error().message = fmt::format("{}: {}", path, arrays.error().message);
  return arrays;
}

Result<> write_stored_arrays(const std::string& path, std::span<const StoredArrayView> arrays,
                             AtomicFile::Fault fault) {
  DT_TRY(AtomicFile file, AtomicFile::create(path, std::move(fault)));
  DT_TRY_VOID(file.write(to_ndarray_bytes(arrays)));
  return file.commit();
}

Result<std::vector<NamedArray>> read_ndarray_file(const std::string& path) {
  DT_TRY(std::vector<StoredArray> stored, read_stored_arrays(path));
  std::vector<NamedArray> arrays;
  for (StoredArray& array : stored) {
    auto* values = std::get_if<std::vector<float>>(&array.values);
    if (values == nullptr) return fail(Code::kData, "{}: array '{}' is not float32", path, array.name);
    arrays.push_back({std::move(array.name), std::move(array.shape), std::move(*values)});
  }
  return arrays;
}

Result<> write_ndarray_file(const std::string& path, std::span<const NamedArray> arrays, AtomicFile::Fault fault) {
  std::vector<StoredArrayView> views;
  views.reserve(arrays.size());
  for (const NamedArray& array : arrays)
    views.push_back({array.name, array.shape, std::span<const float>(array.values)});
  return write_stored_arrays(path, views, std::move(fault));
}

}  // namespace dtrain
