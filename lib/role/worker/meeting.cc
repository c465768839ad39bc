#include "role/worker/meeting.h"

#include <algorithm>

namespace dtrain::role {
namespace {

// Sums are sums of doubles, which represent integers below 2^53 exactly: six bytes each.
constexpr size_t kWordBytes = 6;

size_t words_of(size_t bytes) {
  return (bytes + kWordBytes - 1) / kWordBytes;
}

void pack(const std::string& bytes, std::span<double> words) {
  for (size_t i = 0; i < bytes.size(); i++) {
    const auto byte = static_cast<uint64_t>(static_cast<unsigned char>(bytes[i]));
    words[i / kWordBytes] += static_cast<double>(byte << (8 * (i % kWordBytes)));
  }
}

std::string unpack(std::span<const double> words, size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; i++) {
    bytes[i] = static_cast<char>(static_cast<uint64_t>(words[i / kWordBytes]) >> (8 * (i % kWordBytes)) & 0xFF);
  }
  return bytes;
}

}  // namespace

Result<std::vector<std::string>> exchange(job::Coordinator& coordinator, const std::string& name,
                                          const std::string& mine) {
  const size_t rank = coordinator.rank();
  std::vector<double> sizes(coordinator.workers(), 0);
  sizes[rank] = static_cast<double>(mine.size());
  DT_TRY(sizes, coordinator.sum(name + ", sizes", sizes));
  std::vector<size_t> begins(sizes.size() + 1, 0);
  for (size_t i = 0; i < sizes.size(); i++) begins[i + 1] = begins[i] + words_of(static_cast<size_t>(sizes[i]));
  std::vector<double> words(begins.back(), 0);
  pack(mine, std::span(words).subspan(begins[rank], words_of(mine.size())));
  DT_TRY(words, coordinator.sum(name, words));
  std::vector<std::string> all;
  for (size_t i = 0; i < sizes.size(); i++) {
    all.push_back(unpack(std::span(words).subspan(begins[i]), static_cast<size_t>(sizes[i])));
  }
  return all;
}

Result<std::string> broadcast(job::Coordinator& coordinator, const std::string& name, const std::string& mine) {
  constexpr size_t kChunkBytes = 4096 * kWordBytes;  // a barrier carries at most this much
  const bool sends = coordinator.rank() == 0;
  std::vector<double> size = {sends ? static_cast<double>(mine.size()) : 0};
  DT_TRY(size, coordinator.sum(name + ", size", size));
  const auto bytes = static_cast<size_t>(size[0]);
  std::string all;
  for (size_t begin = 0; begin < bytes; begin += kChunkBytes) {
    const size_t count = std::min(kChunkBytes, bytes - begin);
    std::vector<double> words(words_of(count), 0);
    if (sends) pack(mine.substr(begin, count), words);
    DT_TRY(words, coordinator.sum(name, words));
    all += unpack(words, count);
  }
  return all;
}

}  // namespace dtrain::role
