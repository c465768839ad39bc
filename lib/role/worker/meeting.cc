#include "role/worker/meeting.h"

#include <utility>

namespace dtrain::role {

Result<std::vector<std::string>> exchange_addresses(job::Coordinator& coordinator, const std::string& name,
                                                    std::string mine) {
  DT_TRY(std::vector<job::Address> all, coordinator.all_gather(name, job::Address{std::move(mine)}));
  std::vector<std::string> addresses;
  addresses.reserve(all.size());
  for (job::Address& address : all) addresses.push_back(std::move(address.bytes));
  return addresses;
}

Result<std::vector<std::string>> exchange_pair_addresses(job::Coordinator& coordinator, const std::string& name,
                                                         const std::vector<uint32_t>& members,
                                                         std::vector<std::string> for_each) {
  job::PairAddresses mine{std::vector<std::string>(coordinator.workers())};
  for (size_t i = 0; i < members.size(); i++) mine.bytes[members[i]] = std::move(for_each[i]);
  DT_TRY(std::vector<job::PairAddresses> all, coordinator.all_gather(name, std::move(mine)));
  if (all.size() != members.size() || coordinator.live() != members) {
    return fail(Code::kPeerLost, "a worker was lost while the workers met");
  }
  std::vector<std::string> addresses;
  addresses.reserve(all.size());
  for (job::PairAddresses& own : all) {
    if (own.bytes.size() != 1) {
      return fail(Code::kInternal, "barrier '{}': worker {} sent {} addresses for this worker instead of one", name,
                  addresses.size(), own.bytes.size());
    }
    addresses.push_back(std::move(own.bytes.front()));
  }
  return addresses;
}

Result<std::string> broadcast(job::Coordinator& coordinator, const std::string& name, const std::string& mine) {
  const bool sends = coordinator.rank() == 0;
  std::string all;
  uint64_t size = 0;
  do {
    job::Chunk chunk;
    if (sends) chunk = {.size = mine.size(), .bytes = mine.substr(all.size(), kChunkBytes)};
    DT_TRY(std::vector<job::Chunk> chunks, coordinator.all_gather(name, std::move(chunk)));
    const job::Chunk& first = chunks.front();
    const bool fits = all.size() + first.bytes.size() <= first.size && (!first.bytes.empty() || first.size == 0);
    if (!fits || (!all.empty() && first.size != size)) {
      return fail(Code::kInternal, "{}: worker 0 sent {} bytes at position {} of {} bytes, which is not possible", name,
                  first.bytes.size(), all.size(), first.size);
    }
    size = first.size;
    all += first.bytes;
  } while (all.size() < size);
  return all;
}

}  // namespace dtrain::role
