#include "tensor/ndarray_file.h"

#include <cstring>
#include <iterator>
#include <type_traits>

#include "base/file_kind.h"

namespace dtrain {
namespace {

constexpr uint64_t kListMagic = 0x112;
constexpr uint32_t kV1 = 0xF993fac8;
constexpr uint32_t kV2 = 0xF993fac9;
constexpr uint32_t kV3 = 0xF993faca;
constexpr int32_t kDense = 0;
constexpr int32_t kCpu = 1;
constexpr int32_t kFloat32 = 0;
constexpr int32_t kUint8 = 3;
constexpr int32_t kDimensionsMax = 32;  // MXNet's own limit

template <class T>
void put(std::string& out, T value) {
  static_assert(std::is_integral_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_array(std::string& out, const StoredArrayView& array) {
  put(out, kV2);
  put(out, kDense);
  put(out, static_cast<int32_t>(array.shape.size()));
  const size_t count = std::visit([](const auto& values) { return values.size(); }, array.values);
  const int64_t expected = array.shape.empty() ? 0 : element_count(array.shape);
  DT_CHECK(static_cast<int64_t>(count) == expected, "'{}' has {} values and the shape {}", array.name, count,
           to_string(array.shape));
  if (array.shape.empty()) return;
  for (const int64_t dimension : array.shape) put(out, dimension);
  put(out, kCpu);
  put(out, int32_t{0});
  put(out, array.values.index() == 0 ? kFloat32 : kUint8);
  std::visit([&](const auto& values) { out.append(reinterpret_cast<const char*>(values.data()), values.size_bytes()); },
             array.values);
}

// The name of mshadow's type with this number; empty if unknown.
std::string_view type_name_of(int32_t type) {
  constexpr std::string_view kNames[] = {"float32", "float64", "float16", "uint8",  "int32",  "int8",    "int64",
                                         "bool",    "int16",   "uint16",  "uint32", "uint64", "bfloat16"};
  return type >= 0 && type < std::ssize(kNames) ? kNames[type] : std::string_view();
}

// Describes what the bytes are instead of an NDArray file, and why they may have been taken for one.
std::string other_kind(std::string_view bytes) {
  const std::string_view kind = file_kind(bytes.substr(0, 512));
  if (kind != "a pickled Python object") return std::string(kind);
  return fmt::format(
      "{}, such as the optimizer states that MXNet's Python interface writes; dtrain cannot read them: remove the file "
      "to resume from the weights (.params) alone",
      kind);
}

// Reads untrusted bytes: never reads past the end, and never allocates memory because the file claims a size.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  Result<std::vector<StoredArray>> list() {
    DT_TRY(const uint64_t magic, number<uint64_t>());
    if (magic != kListMagic) return fail(Code::kData, "not an NDArray file; it is {}", other_kind(bytes_));
    DT_TRY_VOID(number<uint64_t>());  // reserved
    DT_TRY(const uint64_t count, number<uint64_t>());
    std::vector<StoredArray> arrays;
    for (uint64_t i = 0; i < count; i++) {
      DT_TRY(StoredArray array, this->array(), "reading array {} of {}", i, count);
      arrays.push_back(std::move(array));
    }
    DT_TRY_VOID(names(arrays));
    if (at_ != bytes_.size()) return fail(Code::kData, "{} bytes follow the last name", bytes_.size() - at_);
    return arrays;
  }

 private:
  Result<std::string_view> take(uint64_t count) {
    if (count > bytes_.size() - at_) {
      return fail(Code::kData, "the file ends at byte {}, but {} bytes must follow byte {}", bytes_.size(), count, at_);
    }
    const std::string_view part = bytes_.substr(at_, count);
    at_ += count;
    return part;
  }

  template <class T>
  Result<T> number() {
    DT_TRY(const std::string_view part, take(sizeof(T)));
    T value;
    std::memcpy(&value, part.data(), sizeof value);
    return value;
  }

  Result<> names(std::vector<StoredArray>& arrays) {
    DT_TRY(const uint64_t count, number<uint64_t>());
    if (count != 0 && count != arrays.size()) {
      return fail(Code::kData, "the file has {} names for {} arrays", count, arrays.size());
    }
    for (uint64_t i = 0; i < count; i++) {
      DT_TRY(const uint64_t size, number<uint64_t>());
      DT_TRY(const std::string_view name, take(size));
      arrays[i].name = name;
    }
    return {};
  }

  Result<StoredArray> array() {
    DT_TRY(const uint32_t version, number<uint32_t>());
    if (version != kV2) {
      const char* which = version == kV1 ? "1 (MXNet 0.11)" : version == kV3 ? "3 (numpy shapes)" : "0 (MXNet 0.10)";
      return fail(Code::kData, "its version is {}, not 2, or the file is damaged", which);
    }
    DT_TRY(const int32_t storage, number<int32_t>());
    if (storage != kDense)
      return fail(Code::kData, "its storage type is {}; only dense arrays (0) can be read", storage);
    StoredArray array;
    DT_TRY(array.shape, shape());
    if (array.shape.empty()) return array;
    DT_TRY_VOID(take(8));  // the device that the array was on
    DT_TRY(const int32_t type, number<int32_t>());
    DT_TRY_VOID(values(type, array));
    return array;
  }

  Result<Shape> shape() {
    DT_TRY(const int32_t dimensions, number<int32_t>());
    if (dimensions < -1 || dimensions > kDimensionsMax) return fail(Code::kData, "it has {} dimensions", dimensions);
    Shape shape;
    for (int32_t i = 0; i < dimensions; i++) {
      DT_TRY(const int64_t dimension, number<int64_t>());
      if (dimension < 0) return fail(Code::kData, "its dimension {} is {}", i, dimension);
      shape.push_back(dimension);
    }
    return shape;
  }

  Result<> values(int32_t type, StoredArray& array) {
    if (type == kFloat32) return fill(array.values.emplace<std::vector<float>>(), array.shape);
    if (type == kUint8) return fill(array.values.emplace<std::vector<uint8_t>>(), array.shape);
    const std::string_view name = type_name_of(type);
    return fail(Code::kData,
                "its type is {}; only float32 and uint8 can be read (in MXNet, net.cast('float32') or "
                "array.astype('float32') before saving)",
                name.empty() ? fmt::format("unknown ({})", type) : name);
  }

  template <class T>
  Result<> fill(std::vector<T>& values, const Shape& shape) {
    int64_t bytes = sizeof(T);
    for (const int64_t dimension : shape) {
      if (__builtin_mul_overflow(bytes, dimension, &bytes)) {
        return fail(Code::kData, "its shape {} is too large", to_string(shape));
      }
    }
    DT_TRY(const std::string_view part, take(static_cast<uint64_t>(bytes)));
    values.resize(part.size() / sizeof(T));
    if (!part.empty()) std::memcpy(values.data(), part.data(), part.size());
    return {};
  }

  std::string_view bytes_;
  size_t at_ = 0;
};

}  // namespace

std::string to_ndarray_bytes(std::span<const StoredArrayView> arrays) {
  std::string out;
  size_t bytes = 64;
  for (const StoredArrayView& array : arrays) {
    bytes += 128 + array.name.size() + std::visit([](const auto& values) { return values.size_bytes(); }, array.values);
  }
  out.reserve(bytes);
  put(out, kListMagic);
  put(out, uint64_t{0});
  put(out, static_cast<uint64_t>(arrays.size()));
  for (const StoredArrayView& array : arrays) put_array(out, array);
  put(out, static_cast<uint64_t>(arrays.size()));
  for (const StoredArrayView& array : arrays) {
    put(out, static_cast<uint64_t>(array.name.size()));
    out += array.name;
  }
  return out;
}

Result<std::vector<StoredArray>> parse_ndarray_bytes(std::string_view bytes) {
  return Reader(bytes).list();
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
