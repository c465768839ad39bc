#include "data/records/tar.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "data/records/gzip_file.h"

namespace dtrain::data {
namespace {

constexpr int64_t kBlockBytes = 512;
using Block = std::array<uint8_t, kBlockBytes>;

constexpr int64_t padded(int64_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

// A number in octal digits or, if the first bit is set, a big-endian binary number (GNU). Nullopt if it is neither, or
// beyond 2^62.
std::optional<int64_t> number_in(std::span<const uint8_t> field) {
  int64_t value = 0;
  if ((field[0] & 0x80) != 0) {
    if ((field[0] & 0x7f) != 0) return std::nullopt;  // negative, or far too large
    for (const uint8_t byte : field.subspan(1)) {
      if (value >> 54 != 0) return std::nullopt;
      value = value << 8 | byte;
    }
    return value;
  }
  size_t i = 0;
  while (i < field.size() && field[i] == ' ') i++;
  for (; i < field.size() && field[i] != 0 && field[i] != ' '; i++) {
    if (field[i] < '0' || field[i] > '7' || value >> 58 != 0) return std::nullopt;
    value = value << 3 | (field[i] - '0');
  }
  return value;
}

std::string text_in(std::span<const uint8_t> field) {
  return {field.begin(), std::ranges::find(field, uint8_t{0})};
}

// Compares the checksum with the sum of the header's bytes, in which blanks replace the checksum itself.
bool has_right_checksum(const Block& block) {
  constexpr size_t kSumBegin = 148, kSumEnd = 156;
  int64_t sum = 0;
  for (size_t i = 0; i < block.size(); i++) sum += i >= kSumBegin && i < kSumEnd ? ' ' : block[i];
  return number_in(std::span(block).subspan(kSumBegin, kSumEnd - kSumBegin)) == sum;
}

struct Header {
  std::string name;
  int64_t size = 0;
  char type = '0';

  [[nodiscard]] bool is_file() const { return type == '0' || type == 0 || type == '7'; }
  [[nodiscard]] bool is_long_name() const { return type == 'L'; }
  [[nodiscard]] bool is_pax() const { return type == 'x'; }
};

// Parses a tar header. Nullopt: this is not a tar header.
std::optional<Header> parse_header(const Block& block) {
  if (!has_right_checksum(block)) return std::nullopt;
  const std::span<const uint8_t> bytes(block);
  const std::optional<int64_t> size = number_in(bytes.subspan(124, 12));
  if (!size) return std::nullopt;
  Header header{.name = text_in(bytes.first(100)), .size = *size, .type = static_cast<char>(block[156])};
  const bool is_posix = std::memcmp(block.data() + 257, "ustar\0", 6) == 0;
  const std::string prefix = is_posix ? text_in(bytes.subspan(345, 155)) : "";
  if (!prefix.empty()) header.name = prefix + "/" + header.name;
  return header;
}

bool is_empty(const Block& block) {
  return std::ranges::all_of(block, [](uint8_t byte) { return byte == 0; });
}

std::string without_dot(std::string name) {
  while (name.starts_with("./")) name.erase(0, 2);
  return name;
}

// The value of "path" in a pax header, whose lines are "LENGTH KEY=VALUE\n"; empty if there is none.
std::string path_in_pax(std::string_view text) {
  constexpr std::string_view kKey = " path=";
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const size_t at = line.find(kKey);
    if (at != std::string_view::npos && at == line.find(' ')) return std::string(line.substr(at + kKey.size()));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return {};
}

constexpr int64_t kNameBytesMax = 1 << 16;  // limit for a long name, and for a pax header

tl::unexpected<Error> broken(const std::string& name, int64_t offset, const char* reason) {
  return fail(Code::kData, "{}: offset {}: {}", name, offset, reason);
}

}  // namespace

Result<std::vector<TarMember>> list_tar(const ReadTar& read, int64_t begin, int64_t end, const std::string& name) {
  std::vector<TarMember> members;
  std::string long_name;
  for (int64_t at = begin; at < end;) {
    if (end - at < kBlockBytes) return broken(name, at, "the tar archive ends within a header");
    Block block;
    DT_TRY_VOID(read(at, block));
    if (is_empty(block)) break;
    const std::optional<Header> header = parse_header(block);
    if (!header)
      return broken(name, at, at == begin ? "not a tar archive" : "no member of the tar archive begins here");
    const int64_t content = at + kBlockBytes;
    if (header->size > end - content) return broken(name, at, "the tar archive ends within this member");
    if (header->is_long_name() || header->is_pax()) {
      if (header->size > kNameBytesMax) return broken(name, at, "the name of this member is too long");
      std::string text(static_cast<size_t>(header->size), '\0');
      DT_TRY_VOID(read(content, {reinterpret_cast<uint8_t*>(text.data()), text.size()}));
      const std::string found = header->is_pax() ? path_in_pax(text) : text.substr(0, text.find('\0'));
      if (!found.empty()) long_name = found;
    } else {
      if (header->is_file()) {
        if (members.size() == kTarMembersMax) return broken(name, at, "the tar archive has too many members");
        members.push_back({without_dot(long_name.empty() ? header->name : long_name), content, header->size});
      }
      long_name.clear();
    }
    at = content + padded(header->size);
  }
  return members;
}

namespace {

// The bytes of a compressed archive, one after the other.
class ArchiveBytes {
 public:
  static Result<ArchiveBytes> open(const std::string& path, int64_t bytes_max) {
    DT_TRY(GzipFile file, GzipFile::open(path));
    return ArchiveBytes(path, bytes_max, std::move(file));
  }

  // Fills `out`; false if the archive ends before its first byte.
  Result<bool> read(std::span<uint8_t> out) {
    DT_TRY(const size_t have, file_.read(out));
    at_ += static_cast<int64_t>(have);
    if (at_ > bytes_max_) return broken(path_, at_, "the archive is larger than it should be");
    if (have == 0 && !out.empty()) return false;
    if (have < out.size()) return broken(path_, at_, "the archive ends within a member");
    return true;
  }
  [[nodiscard]] int64_t at() const { return at_; }

 private:
  ArchiveBytes(const std::string& path, int64_t bytes_max, GzipFile file)
      : path_(path), bytes_max_(bytes_max), file_(std::move(file)) {}

  std::string path_;
  int64_t bytes_max_, at_ = 0;
  GzipFile file_;
};

// Passes the content of a member on, piece by piece, and skips the padding.
Result<> pass_on(ArchiveBytes& bytes, const std::string& path, int64_t size, const TakePiece& take) {
  std::vector<uint8_t> piece;
  constexpr int64_t kPieceBytes = 1 << 18;
  for (int64_t left = padded(size), wanted = size; left > 0;) {
    piece.resize(static_cast<size_t>(std::min(left, kPieceBytes)));
    DT_TRY(const bool is_there, bytes.read(piece));
    if (!is_there) return broken(path, bytes.at(), "the archive ends within a member");
    const auto of_content = static_cast<size_t>(std::clamp<int64_t>(wanted, 0, static_cast<int64_t>(piece.size())));
    if (take && of_content > 0) DT_TRY_VOID(take(Bytes(piece).first(of_content)));
    left -= static_cast<int64_t>(piece.size());
    wanted -= static_cast<int64_t>(of_content);
  }
  return take ? take({}) : Result<>{};
}

}  // namespace

Result<> walk_tar_gz(const std::string& path, int64_t bytes_max,
                     const std::function<TakePiece(const std::string& name, int64_t size)>& want) {
  DT_TRY(ArchiveBytes bytes, ArchiveBytes::open(path, bytes_max));
  std::string long_name;
  while (true) {
    const int64_t at = bytes.at();
    Block block;
    DT_TRY(const bool is_there, bytes.read(block));
    if (!is_there || is_empty(block)) return {};
    const std::optional<Header> header = parse_header(block);
    if (!header) return broken(path, at, at == 0 ? "not a tar archive" : "no member of the tar archive begins here");
    if (header->is_long_name() || header->is_pax()) {
      if (header->size > kNameBytesMax) return broken(path, at, "the name of this member is too long");
      std::string text;
      DT_TRY_VOID(pass_on(bytes, path, header->size, [&text](Bytes piece) -> Result<> {
        text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
        return {};
      }));
      const std::string found = header->is_pax() ? path_in_pax(text) : text.substr(0, text.find('\0'));
      if (!found.empty()) long_name = found;
      continue;
    }
    const std::string name = without_dot(long_name.empty() ? header->name : long_name);
    long_name.clear();
    DT_TRY_VOID(pass_on(bytes, path, header->size, header->is_file() ? want(name, header->size) : nullptr));
  }
}

}  // namespace dtrain::data
