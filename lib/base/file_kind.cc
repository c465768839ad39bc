#include "base/file_kind.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/utf8.h"

namespace dtrain {
namespace {

using namespace std::string_view_literals;

struct Kind {
  std::string_view name;
  std::string_view signature;
};
constexpr Kind kKinds[] = {
    {"a RecordIO file", "\x0a\x23\xd7\xce"sv},
    {"an NDArray file of MXNet", "\x12\x01\0\0\0\0\0\0"sv},
    {"an idx file of images (MNIST)", "\0\0\x08\x03"sv},
    {"an idx file of labels (MNIST)", "\0\0\x08\x01"sv},
    {"a JPEG image", "\xff\xd8\xff"sv},
    {"a PNG image", "\x89PNG"sv},
    {"a gzip file", "\x1f\x8b"sv},
    {"a zip archive", "PK\x03\x04"sv},
    {"a numpy array", "\x93NUMPY"sv},
    {"an HDF5 file", "\x89HDF"sv},
};

// Pickle protocols 2 to 5 begin with the byte 0x80 and the protocol's number.
bool is_pickle(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
}

// True if `bytes` can be the beginning of a UTF-8 character.
bool begins_character(std::string_view bytes) {
  return std::ranges::any_of(std::array{"\x80\x80\x80"sv, "\xbf\xbf\xbf"sv}, [&](std::string_view rest) {
    return character_bytes(std::string(bytes).append(rest)) > bytes.size();
  });
}

// Whether the text is UTF-8. Its last character may be truncated.
bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t size = character_bytes(bytes);
    if (size == 0) return begins_character(bytes);
    bytes.remove_prefix(size);
  }
  return true;
}

// True for text in ASCII or UTF-8 without control characters other than white space.
bool is_text(std::string_view bytes) {
  return !bytes.empty() && is_utf8(bytes) && std::ranges::all_of(bytes, [](char c) {
    return static_cast<unsigned char>(c) >= ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f';
  });
}

}  // namespace

std::string_view file_kind(std::string_view first_bytes) {
  for (const Kind& kind : kKinds) {
    if (first_bytes.starts_with(kind.signature)) return kind.name;
  }
  if (is_pickle(first_bytes)) return "a pickled Python object";
  if (first_bytes.empty()) return "an empty file";
  return is_text(first_bytes) ? "a text file" : "a file of another kind";
}

}  // namespace dtrain
