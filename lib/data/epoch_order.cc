#include "data/epoch_order.h"

#include <numeric>

#include "base/random.h"

namespace dtrain::data {

std::vector<Share> chunks_of(const Share& share, int64_t chunk_bytes,
                             const std::function<int64_t(int64_t)>& stored_bytes) {
  if (chunk_bytes == 0) return {share};
  std::vector<Share> chunks;
  int64_t begin = share.begin, bytes = 0;
  for (int64_t record = share.begin; record < share.end; record++) {
    const int64_t more = stored_bytes(record);
    // Ends the chunk before this record if that is closer to the wanted size than ending it after the record.
    if (record > begin && bytes + more / 2 >= chunk_bytes) {
      chunks.push_back({begin, record});
      begin = record;
      bytes = 0;
    }
    bytes += more;
  }
  if (begin < share.end) chunks.push_back({begin, share.end});
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
  // A single chunk draws nothing for its place, so that its order is that of a share without chunks.
  const std::vector<int64_t> places =
      chunks.size() == 1 ? std::vector<int64_t>{0} : permutation(static_cast<int64_t>(chunks.size()), random);
  for (const int64_t place : places) {
    const Share& chunk = chunks[static_cast<size_t>(place)];
    for (const int64_t record : permutation(chunk.size(), random)) records.push_back(chunk.begin + record);
  }
  return records;
}

}  // namespace dtrain::data
