#include "dataset/matlab_file.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <vector>

namespace dtrain::dataset {
namespace {

// Types of elements and classes of arrays; the values are those of the file format.
enum MatType : uint32_t {
  kInt8 = 1,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kDouble = 9,
  kMatrix = 14,
  kCompressed,
  kUtf8
};
constexpr uint8_t kStructClass = 2, kCharClass = 4;

constexpr size_t kFileHeaderBytes = 128;
constexpr uLongf kUnpackedMax = uLongf{64} << 20;

tl::unexpected<Error> wrong(const char* what) {
  return fail(Code::kData, "{}", what);
}

struct Element {
  uint32_t type = 0;
  Bytes content;
};

// Removes the first element from `rest` and returns it. A content of at most four bytes may be stored inside the tag.
Result<Element> take_element(Bytes& rest) {
  constexpr size_t kTagBytes = 8;
  if (rest.size() < kTagBytes) return wrong("the file ends within an element");
  const uint32_t word = load_u32(rest.data());
  if (const uint32_t small = word >> 16; small != 0) {
    if (small > 4) return wrong("a short element is too long");
    const Element element{word & 0xffff, rest.subspan(4, small)};
    rest = rest.subspan(kTagBytes);
    return element;
  }
  const size_t size = load_u32(rest.data() + 4);
  if (size > rest.size() - kTagBytes) return wrong("an element runs beyond the end of the file");
  const Element element{word, rest.subspan(kTagBytes, size)};
  const size_t padded = word == kCompressed ? size : (size + 7) / 8 * 8;
  rest = rest.subspan(std::min(kTagBytes + padded, rest.size()));
  return element;
}

// The fields at the beginning of every array; `rest` holds the bytes after them.
struct Array {
  uint8_t array_class = 0;
  int64_t count = 0;  // number of values in the array
  Bytes rest;
};

Result<Array> open_array(Bytes content) {
  Array array{.array_class = 0, .count = 1, .rest = content};
  DT_TRY(const Element flags, take_element(array.rest));
  if (flags.content.size() < 4) return wrong("an array has no flags");
  array.array_class = flags.content[0];
  DT_TRY(const Element dimensions, take_element(array.rest));
  for (size_t i = 0; i + 4 <= dimensions.content.size(); i += 4) {
    constexpr int64_t kCountMax = 1 << 20;
    array.count *= load_u32(dimensions.content.data() + i);
    if (array.count > kCountMax) return wrong("an array has too many values");
  }
  DT_TRY_VOID(take_element(array.rest));  // skips the array's name
  return array;
}

// The text in a character array; "" for an array of another class.
Result<std::string> text_of(Bytes content) {
  DT_TRY(Array array, open_array(content));
  if (array.array_class != kCharClass) return std::string();
  DT_TRY(const Element characters, take_element(array.rest));
  const size_t step = characters.type == kUint16 || characters.type == kInt16 ? 2 : 1;
  std::string text;
  for (size_t i = 0; i + step <= characters.content.size(); i += step) {
    text += static_cast<char>(characters.content[i]);
  }
  return text;
}

// The first number of an array; -1 if it is not an integer.
Result<int64_t> number_of(Bytes content) {
  DT_TRY(Array array, open_array(content));
  DT_TRY(const Element numbers, take_element(array.rest));
  const Bytes bytes = numbers.content;
  switch (numbers.type) {
    case kInt8:
    case kUint8: return bytes.empty() ? -1 : int64_t{bytes[0]};
    case kInt16:
    case kUint16: return bytes.size() < 2 ? -1 : bytes[0] | int64_t{bytes[1]} << 8;
    case kInt32:
    case kUint32: return bytes.size() < 4 ? -1 : int64_t{load_u32(bytes.data())};
    case kDouble: {
      if (bytes.size() < 8) return -1;
      const auto number = std::bit_cast<double>(load_u64(bytes.data()));
      return number >= 0 && number < 1e9 ? static_cast<int64_t>(number) : -1;
    }
    default: return -1;
  }
}

Result<std::vector<std::string>> field_names(Array& array) {
  DT_TRY(const Element length, take_element(array.rest));
  DT_TRY(const Element names, take_element(array.rest));
  const size_t each = length.content.size() < 4 ? 0 : load_u32(length.content.data());
  if (each == 0 || each > names.content.size()) return wrong("a struct has no fields");
  std::vector<std::string> fields;
  for (size_t i = 0; i + each <= names.content.size(); i += each) {
    const Bytes field = names.content.subspan(i, each);
    fields.emplace_back(field.begin(), std::ranges::find(field, uint8_t{0}));
  }
  return fields;
}

Result<std::map<int64_t, std::string>> synsets_in(Bytes content) {
  DT_TRY(Array array, open_array(content));
  if (array.array_class != kStructClass) return wrong("the first array of the file is not the table of synsets");
  DT_TRY(const std::vector<std::string> fields, field_names(array));
  std::map<int64_t, std::string> synsets;
  for (int64_t i = 0; i < array.count; i++) {
    int64_t id = -1;
    std::string synset;
    for (const std::string& field : fields) {
      DT_TRY(const Element value, take_element(array.rest));
      if (value.type != kMatrix) return wrong("a field of the table is not an array");
      if (field == "ILSVRC2012_ID") {
        DT_TRY(id, number_of(value.content));
      } else if (field == "WNID") {
        DT_TRY(synset, text_of(value.content));
      }
    }
    if (id <= 0 || synset.empty()) return wrong("a synset has no ILSVRC2012_ID or no WNID");
    synsets[id] = synset;
  }
  if (synsets.empty()) return wrong("the table of synsets is empty");
  return synsets;
}

Result<std::vector<uint8_t>> unpacked(Bytes compressed) {
  std::vector<uint8_t> bytes;
  for (uLongf size = uLongf{1} << 20; size <= kUnpackedMax; size *= 4) {
    bytes.resize(size);
    uLongf got = size;
    const int code = uncompress(bytes.data(), &got, compressed.data(), compressed.size());
    if (code == Z_BUF_ERROR && got == size) continue;
    if (code != Z_OK) return wrong("the compressed data are damaged");
    bytes.resize(got);
    return bytes;
  }
  return wrong("the uncompressed data are larger than 64 MiB");
}

Result<std::map<int64_t, std::string>> read_file_of_synsets(Bytes file) {
  if (file.size() < kFileHeaderBytes || file[126] != 'I' || file[127] != 'M')
    return wrong("the file is not a MATLAB level 5 file");
  Bytes rest = file.subspan(kFileHeaderBytes);
  DT_TRY(Element element, take_element(rest));
  std::vector<uint8_t> bytes;
  if (element.type == kCompressed) {
    DT_TRY(bytes, unpacked(element.content));
    Bytes inside(bytes);
    DT_TRY(element, take_element(inside));
  }
  if (element.type != kMatrix) return wrong("the file does not begin with an array");
  return synsets_in(element.content);
}

}  // namespace

Result<std::map<int64_t, std::string>> read_synsets(Bytes file, const std::string& name) {
  Result<std::map<int64_t, std::string>> synsets = read_file_of_synsets(file);
  if (!synsets) return fail(Code::kData, "{}: {}", name, synsets.error().message);
  return synsets;
}

}  // namespace dtrain::dataset
