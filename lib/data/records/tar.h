// Reads tar archives: POSIX ustar, GNU and pax, as far as regular files with names are concerned. Nothing is written
// under a name that an archive chooses: callers ask for the members that they want.
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
  std::string name;    // "n01440764/n01440764_18.JPEG", without a leading "./"
  int64_t offset = 0;  // of the content in the archive
  int64_t size = 0;
};

// Reads `out.size()` bytes at an offset of the archive. Code::kData if it ends earlier.
using ReadTar = std::function<Result<>(int64_t offset, std::span<uint8_t> out)>;

// The regular files in the archive that takes the bytes [begin, end) of what `read` reads, in their order; the offsets
// count from the start of what `read` reads. `name` is for messages. Code::kData, with the offset: it is not a tar
// archive, it ends within a member, or it has more than kTarMembersMax members.
Result<std::vector<TarMember>> list_tar(const ReadTar& read, int64_t begin, int64_t end, const std::string& name);
constexpr size_t kTarMembersMax = size_t{1} << 24;

// Walks over a tar archive that is compressed by gzip, or is not. `want` is called for each regular file with its name,
// and returns where its content goes: called with one piece after another, and at the end with an empty one; null: the
// file is skipped. `bytes_max` limits what is unpacked in all, skipped content too. Code::kData as list_tar, and if the
// compressed data are damaged.
using TakePiece = std::function<Result<>(Bytes piece)>;
Result<> walk_tar_gz(const std::string& path, int64_t bytes_max,
                     const std::function<TakePiece(const std::string& name, int64_t size)>& want);

}  // namespace dtrain::data
