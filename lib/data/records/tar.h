// Reads tar archives: POSIX ustar, GNU and pax, as far as named regular files are concerned. Never writes to a path
// that an archive chooses: callers ask for the members that they want.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/records/recordio.h"

namespace dtrain::data {

struct TarMember {
  std::string name;    // path of the file: "n01440764/n01440764_18.JPEG", without a leading "./"
  int64_t offset = 0;  // offset of the content in the archive
  int64_t size = 0;
};

// Reads `out.size()` bytes at an offset of the archive. Code::kData if the archive ends earlier.
using ReadTar = std::function<Result<>(int64_t offset, std::span<uint8_t> out)>;

// The regular files of an archive, in order. The archive consists of the bytes [begin, end) of the data that `read`
// reads; offsets count from the start of that data. `name` is for messages. Code::kData, with the offset: it is not a
// tar archive, it ends within a member, or it has more than kTarMembersMax members.
Result<std::vector<TarMember>> list_tar(const ReadTar& read, int64_t begin, int64_t end, const std::string& name);
constexpr size_t kTarMembersMax = size_t{1} << 24;

// Walks over a tar archive, plain or compressed with gzip. `want` is called with the name of each regular file and
// returns the function that receives its content, one piece after another and an empty piece at the end; null: the file
// is skipped. `bytes_max` limits the total number of unpacked bytes, including skipped content. Code::kData in the same
// cases as list_tar, and if the compressed data are damaged.
using TakePiece = std::function<Result<>(Bytes piece)>;
Result<> walk_tar_gz(const std::string& path, int64_t bytes_max,
                     const std::function<TakePiece(const std::string& name, int64_t size)>& want);

}  // namespace dtrain::data
