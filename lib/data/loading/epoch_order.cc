#include "data/loading/epoch_order.h"

#include <algorithm>
#include <numeric>

#include "base/random.h"

namespace dtrain::data {

std::vector<Share> chunks_of(const Share& share, int64_t chunk_bytes,
                             const std::function<int64_t(int64_t)>& stored_bytes) {
  if (chunk_bytes == 0 || share.size() == 0) return {share};
  int64_t all = 0;
  for (int64_t record = share.begin; record < share.end; record++) all += stored_bytes(record);
  const int64_t count = std::clamp<int64_t>((all + chunk_bytes / 2) / chunk_bytes, 1, share.size());
  std::vector<Share> chunks;
  int64_t begin = share.begin, bytes = 0;
  for (int64_t record = share.begin; record < share.end; record++) {
    const int64_t more = stored_bytes(record);
    // Border i lies before the first record whose middle is beyond the fraction i / count of all bytes.
    const auto border = static_cast<double>(std::ssize(chunks) + 1) / static_cast<double>(count);
    const int64_t middle = bytes + more / 2;
    if (record > begin && static_cast<double>(middle) >= border * static_cast<double>(all)) {
      chunks.push_back({begin, record});
      begin = record;
    }
    bytes += more;
  }
  chunks.push_back({begin, share.end});
  return chunks;
}

std::vector<int64_t> records_in_order(const Share& share, int64_t epoch, const EpochOrder& order,
                                      const std::function<int64_t(int64_t)>& stored_bytes) {
  std::vector<int64_t> records;
  records.reserve(static_cast<size_t>(share.size()));
  if (!order.shuffle) {
    records.resize(static_cast<size_t>(share.size()));
    std::iota(records.begin(), records.end(), share.begin);
    return records;
  }
  RandomStream random(order.seed, Use::kShuffle, static_cast<uint64_t>(epoch), static_cast<uint64_t>(share.begin));
  const std::vector<Share> chunks = chunks_of(share, order.chunk_bytes, stored_bytes);
  // If there is a single chunk, no random number is drawn for its place, so that the order equals that of a share
  // without chunks.
  const std::vector<int64_t> places =
      chunks.size() == 1 ? std::vector<int64_t>{0} : permutation(static_cast<int64_t>(chunks.size()), random);
  for (const int64_t place : places) {
    const Share& chunk = chunks[static_cast<size_t>(place)];
    for (const int64_t record : permutation(chunk.size(), random)) records.push_back(chunk.begin + record);
  }
  return records;
}

}  // namespace dtrain::data
