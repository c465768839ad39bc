#include "tensor/ndarray_reader.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/file_kind.h"

namespace dtrain {
namespace {

constexpr uint32_t kV1 = 0xF993fac8;
constexpr uint32_t kV3 = 0xF993faca;
constexpr int32_t kDimensionsMax = 32;  // the largest number of dimensions that MXNet accepts
constexpr uint64_t kArraysMax = uint64_t{1} << 18;
constexpr uint64_t kNameBytesMax = 4096;

struct TypeInfo {
  std::string_view name;
  int64_t bytes;
};
constexpr TypeInfo kTypes[] = {{"float32", 4}, {"float64", 8}, {"float16", 2}, {"uint8", 1}, {"int32", 4},
                               {"int8", 1},    {"int64", 8},   {"bool", 1},    {"int16", 2}, {"uint16", 2},
                               {"uint32", 4},  {"uint64", 8},  {"bfloat16", 2}};

// Describes bytes that are not an NDArray file: what kind of file they are, and why they may have been mistaken for
// one.
std::string other_kind(std::string_view bytes) {
  const std::string_view kind = file_kind(bytes.substr(0, 512));
  if (kind != "a pickled Python object") return std::string(kind);
  return fmt::format(
      "{}, such as the optimizer states that MXNet's Python interface writes; dtrain cannot read them: remove the file "
      "to resume from the weights (.params) alone",
      kind);
}

// True if the number of bytes may overflow, whatever the type and the order in which the dimensions are multiplied. A
// dimension of 0 or -1 (unknown) counts as 1.
bool is_too_large(const Shape& shape) {
  int64_t bytes = 8;
  return std::ranges::any_of(
      shape, [&](int64_t extent) { return __builtin_mul_overflow(bytes, std::max(extent, int64_t{1}), &bytes); });
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  Result<std::vector<StoredEntry>> list() {
    DT_TRY(const uint64_t magic, number<uint64_t>());
    if (magic != kNdarrayListMagic) return fail(Code::kData, "this is not an NDArray file, but {}", other_kind(bytes_));
    DT_TRY_VOID(number<uint64_t>());  // skips a word that the format reserves
    DT_TRY(const uint64_t count, number<uint64_t>());
    if (count > kArraysMax) {
      return fail(Code::kData, "the file claims to have {} arrays, but at most {} can be read", count, kArraysMax);
    }
    std::vector<StoredEntry> arrays;
    for (uint64_t i = 0; i < count; i++) {
      DT_TRY(StoredEntry array, this->array(), "reading array {} of {}", i, count);
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

  Result<> names(std::vector<StoredEntry>& arrays) {
    DT_TRY(const uint64_t count, number<uint64_t>());
    if (count != 0 && count != arrays.size()) {
      return fail(Code::kData, "the file has {} names for {} arrays", count, arrays.size());
    }
    for (uint64_t i = 0; i < count; i++) {
      DT_TRY(const uint64_t size, number<uint64_t>());
      if (size > kNameBytesMax) return fail(Code::kData, "name {} has {} bytes, more than {}", i, size, kNameBytesMax);
      DT_TRY(const std::string_view name, take(size));
      arrays[i].name = name;
    }
    return {};
  }

  Result<StoredEntry> array() {
    DT_TRY(const uint32_t version, number<uint32_t>());
    StoredEntry array;
    if (version != kV1 && version != kNdarrayVersion2 && version != kV3) return legacy_array(version);
    if (version != kV1) {
      DT_TRY(array.layout, layout());
    }
    Shape stored;  // shape of a sparse array's values
    if (array.layout != StoredLayout::kDense) {
      DT_TRY(stored, shape<int64_t>(0));
    }
    DT_TRY(const int32_t dimensions, number<int32_t>());
    if (version == kV3 && array.layout == StoredLayout::kDense) return numpy_array(dimensions);
    DT_TRY(array.shape, extents<int64_t>(dimensions, 0));
    if (array.shape.empty()) return array;
    if (array.layout == StoredLayout::kDense) return filled(std::move(array));
    return skip_sparse(std::move(array), stored);
  }

  // Version 0 has no magic number: the first word is the number of dimensions. Each dimension has 32 bits.
  Result<StoredEntry> legacy_array(uint32_t dimensions) {
    if (dimensions > kDimensionsMax) {
      return fail(Code::kData, "the first word of the array, {:#x}, is neither a version nor a number of dimensions",
                  dimensions);
    }
    StoredEntry array;
    DT_TRY(array.shape, extents<uint32_t>(static_cast<int32_t>(dimensions), 0));
    if (array.shape.empty()) return array;
    return filled(std::move(array));
  }

  // Version 3: an array with an empty shape is a scalar. If the number of dimensions or a dimension is -1, that is,
  // unknown, the array is empty.
  Result<StoredEntry> numpy_array(int32_t dimensions) {
    StoredEntry array;
    if (dimensions == -1) return array;
    DT_TRY(array.shape, extents<int64_t>(dimensions, -1));
    for (const int64_t extent : array.shape) {
      if (extent == -1) return StoredEntry{};
    }
    if (array.shape.empty()) array.shape = {1};
    return filled(std::move(array));
  }

  Result<StoredLayout> layout() {
    DT_TRY(const int32_t number, this->number<int32_t>());
    if (number < 0 || number > 2) {
      return fail(Code::kData, "the array's storage type is {}, not dense (0), row_sparse (1) or csr (2)", number);
    }
    return static_cast<StoredLayout>(number);
  }

  template <class T>
  Result<Shape> shape(int64_t least) {
    DT_TRY(const int32_t dimensions, number<int32_t>());
    return extents<T>(dimensions, least);
  }

  template <class T>
  Result<Shape> extents(int32_t dimensions, int64_t least) {
    if (dimensions < -1 || dimensions > kDimensionsMax)
      return fail(Code::kData, "the array has {} dimensions; the number must be from -1 to {}", dimensions,
                  kDimensionsMax);
    Shape shape;
    for (int32_t i = 0; i < dimensions; i++) {
      DT_TRY(const T extent, number<T>());
      if (static_cast<int64_t>(extent) < least)
        return fail(Code::kData, "the array's dimension {} is {}, but must be at least {}", i, extent, least);
      shape.push_back(extent);
    }
    if (is_too_large(shape)) return fail(Code::kData, "the array's shape {} is too large", to_string(shape));
    return shape;
  }

  Result<StoredType> type() {
    DT_TRY(const int32_t number, this->number<int32_t>());
    if (number < 0 || number >= std::ssize(kTypes))
      return fail(Code::kData, "the array's type is unknown ({})", number);
    return static_cast<StoredType>(number);
  }

  // Reads the device, the type and the elements.
  Result<StoredEntry> filled(StoredEntry array) {
    DT_TRY_VOID(take(8));  // skips the device that the array was on
    DT_TRY(array.type, type());
    DT_TRY(array.bytes, block(array.type, array.shape));
    return array;
  }

  // Reads the device, the type, and the types and shapes of the indices, then skips the values and indices.
  Result<StoredEntry> skip_sparse(StoredEntry array, const Shape& stored) {
    DT_TRY_VOID(take(8));
    DT_TRY(array.type, type());
    std::vector<std::pair<StoredType, Shape>> indices(array.layout == StoredLayout::kCsr ? 2 : 1);
    for (auto& [type, shape] : indices) {
      DT_TRY(type, this->type());
      DT_TRY(shape, this->shape<int64_t>(0));
    }
    DT_TRY_VOID(block(array.type, stored));
    for (const auto& [type, shape] : indices) DT_TRY_VOID(block(type, shape));
    return array;
  }

  Result<std::string_view> block(StoredType type, const Shape& shape) {
    return take(static_cast<uint64_t>(kTypes[static_cast<size_t>(type)].bytes * element_count(shape)));
  }

  std::string_view bytes_;
  size_t at_ = 0;
};

}  // namespace

std::string_view StoredEntry::type_name() const {
  switch (layout) {
    case StoredLayout::kRowSparse: return "row_sparse";
    case StoredLayout::kCsr: return "csr";
    case StoredLayout::kDense: break;
  }
  return kTypes[static_cast<size_t>(type)].name;
}

Result<std::vector<StoredEntry>> find_stored_arrays(std::string_view bytes) {
  return Reader(bytes).list();
}

}  // namespace dtrain
