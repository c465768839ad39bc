// What the workers of a job read, epoch by epoch, when shares move from rank to rank (--resplit-every).
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "data/loading/loader.h"
#include "role/setup/shares.h"
#include "role/worker/loading.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::role;
using dtrain::test::must;

namespace {

constexpr int64_t kRecords = 61, kWorkers = 4, kEpochs = 9;

// Record i is the number i and a random number.
class NumberedRecords : public data::Dataset {
 public:
  [[nodiscard]] int64_t size() const override { return kRecords; }
  [[nodiscard]] const Shape& image() const override { return image_; }
  [[nodiscard]] int64_t stored_bytes(int64_t /*index*/) const override { return int64_t{1} << 18; }
  Result<> load(int64_t index, RandomStream& random, std::span<float> out, std::span<float> labels) const override {
    out[0] = static_cast<float>(index);
    out[1] = static_cast<float>(random.uniform());
    labels[0] = 0;
    return {};
  }

 private:
  Shape image_ = {2, 1, 1};
};

// A job of several workers, as its flags describe it.
struct ResplitJob {
  job::Flags flags;
  job::JobSpec spec;
};

ResplitJob resplit_job(std::vector<std::string> arguments, const std::string& sharding = "") {
  for (const char* argument :
       {"--network", "lenet", "--data-dir", "unused", "-n", "4", "--batch-size", "5", "--seed", "3"}) {
    arguments.emplace_back(argument);
  }
  ResplitJob job{must(job::parse_flags(arguments, [](const std::string&) { return std::nullopt; })).flags, {}};
  job.spec = job::requested(job.flags);
  std::vector<data::Fraction> fractions;
  if (!sharding.empty()) fractions = must(data::parse_sharding_file(sharding, {"data_sharding", kWorkers, false}));
  must(complete_spec(kRecords, 0, fractions, job.spec));
  return job;
}

// The batches of a worker, each with the floats and the keys of its rows.
struct ReadBatch {
  std::vector<float> floats;
  std::vector<uint64_t> keys;
  bool operator==(const ReadBatch&) const = default;
};

// Reads as a worker does that begins in `epoch` at batch `first` and trains to the end of the job.
std::vector<ReadBatch> batches_from(const ResplitJob& job, uint32_t rank, int64_t epoch = 0, int64_t first = 0) {
  const auto records = std::make_shared<NumberedRecords>();
  data::Loader loader(records, training_loading(job.flags, job.spec, *records, {{.name = {}, .classes = 1}}, rank),
                      Log::silent());
  std::vector<ReadBatch> batches;
  for (; epoch < kEpochs; epoch++, first = 0) {
    loader.start(epoch, first);
    while (const data::LoadedBatch* batch = must(loader.next())) {
      const std::span<const float> floats = batch->images().floats;
      batches.push_back({{floats.begin(), floats.end()}, {batch->keys.begin(), batch->keys.end()}});
    }
  }
  return batches;
}

// How often a worker reads each record in an epoch.
std::map<int64_t, int> records_in_epoch(const std::vector<ReadBatch>& batches, int64_t epoch) {
  const size_t length = batches.size() / kEpochs;
  std::map<int64_t, int> count;
  for (size_t i = static_cast<size_t>(epoch) * length; i < static_cast<size_t>(epoch + 1) * length; i++) {
    for (size_t at = 0; at < batches[i].floats.size(); at += 2) count[std::lround(batches[i].floats[at])]++;
  }
  return count;
}

std::set<int64_t> keys_of(const std::map<int64_t, int>& counts) {
  std::set<int64_t> keys;
  for (const auto& [key, count] : counts) keys.insert(key);
  return keys;
}

const char* const kUnequal = "0 .1\n.1 .35\n.35 .4\n.4 1\n";

}  // namespace

TEST_CASE("every record of a job is read in every epoch while shares move from rank to rank", "[role]") {
  const std::string every = GENERATE("1", "2", "3"), shuffle = GENERATE("0", "1"),
                    store = GENERATE("dist_sync", "dist_async");
  const std::string sharding = GENERATE(std::string(), std::string(kUnequal));
  INFO("every " << every << ", shuffle " << shuffle << ", " << store << ", shares " << sharding);
  std::vector<std::string> arguments = {"--resplit-every", every, "--shuffle", shuffle, "--kv-store", store};
  if (!sharding.empty()) arguments.insert(arguments.end(), {"--data-allocator", "1"});
  const ResplitJob job = resplit_job(arguments, sharding);
  std::vector<std::vector<ReadBatch>> read;
  for (uint32_t rank = 0; rank < kWorkers; rank++) read.push_back(batches_from(job, rank));
  for (int64_t epoch = 0; epoch < kEpochs; epoch++) {
    INFO("epoch " << epoch);
    int64_t different = 0;
    for (uint32_t rank = 0; rank < kWorkers; rank++) {
      const auto counts = records_in_epoch(read[rank], epoch);
      const data::Share share = share_of(job.spec, rank, epoch);
      REQUIRE(counts.begin()->first == share.begin);
      REQUIRE(counts.rbegin()->first == share.end - 1);
      REQUIRE(std::ssize(counts) == share.size());
      const auto [least, most] =
          std::ranges::minmax_element(counts, {}, [](const auto& entry) { return entry.second; });
      CHECK(most->second - least->second <= 1);  // a share that is shorter than an epoch comes round again
      different += std::ssize(counts);
      if (epoch == 0) continue;
      const bool is_same = keys_of(counts) == keys_of(records_in_epoch(read[rank], epoch - 1));
      CHECK(is_same == (epoch % std::stol(every) != 0));
    }
    CHECK(different == kRecords);  // shares do not overlap, so these are all records
  }
}

// --shuffle-chunk-size counts MiB, and a record has a quarter of one.
TEST_CASE("a job whose shares move reads the same with 1, 2 and 7 threads, and after a resume", "[role]") {
  const std::vector<std::string> order =
      GENERATE(std::vector<std::string>{"--shuffle", "0"}, std::vector<std::string>{"--shuffle", "1"},
               std::vector<std::string>{"--shuffle-chunk-size", "1"});
  const auto job_with = [&](const char* threads) {
    std::vector<std::string> arguments = order;
    arguments.insert(arguments.end(), {"--resplit-every", "2", "--data-allocator", "1", "--data-nthreads", threads});
    return resplit_job(arguments, kUnequal);
  };
  for (uint32_t rank = 0; rank < kWorkers; rank++) {
    INFO("rank " << rank);
    const std::vector<ReadBatch> expected = batches_from(job_with("1"), rank);
    const auto length = std::ssize(expected) / kEpochs;
    for (const char* const threads : {"2", "7"}) REQUIRE(batches_from(job_with(threads), rank) == expected);
    // Epochs 1 and 2 have different shares, 2 and 3 the same one.
    for (const int64_t epoch : {1, 2, 3, 8}) {
      for (const int64_t first : {int64_t{0}, int64_t{1}, length - 1}) {
        INFO("from epoch " << epoch << ", batch " << first);
        const std::vector<ReadBatch> rest(expected.begin() + epoch * length + first, expected.end());
        CHECK(batches_from(job_with("2"), rank, epoch, first) == rest);
      }
    }
  }
}
