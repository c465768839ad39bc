#include "role/worker/indexing.h"

#include <filesystem>
#include <functional>
#include <future>
#include <random>

#include "data/loading/open.h"
#include "data/make_images.h"
#include "role/worker/meeting.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"
#include "train/members.h"

using namespace dtrain;
using namespace dtrain::role;
using dtrain::test::must;

namespace {

constexpr uint32_t kIndexingWorkers = 3;

using Shared = Result<data::KnownOffsets>;

// Runs each worker, with its own list of files, on its own thread.
std::vector<Shared> share(const std::vector<std::vector<data::IndexedFile>>& files,
                          std::chrono::milliseconds report_interval = std::chrono::seconds(1)) {
  train::test::Meetings meetings(static_cast<uint32_t>(files.size()));
  std::vector<std::future<Shared>> workers;
  for (uint32_t rank = 0; rank < files.size(); rank++) {
    workers.push_back(std::async(std::launch::async, [&, rank] {
      train::test::Member member(meetings, rank);
      Waits waits;
      Pacer pacer({}, waits);
      const Log log = Log::silent();
      return share_indexes(
          files[rank],
          {.coordinator = member, .waits = waits, .log = log, .pacer = pacer, .report_interval = report_interval});
    }));
  }
  std::vector<Shared> all;
  for (auto& worker : workers) all.push_back(worker.get());
  return all;
}

// Gives each worker its own directory, as on three hosts.
std::vector<std::vector<data::IndexedFile>> own_files(const test::TempDir& dir, const std::vector<std::string>& names) {
  std::vector<std::vector<data::IndexedFile>> files(kIndexingWorkers);
  for (uint32_t rank = 0; rank < kIndexingWorkers; rank++) {
    std::filesystem::create_directories(dir.path(std::to_string(rank)));
    for (const std::string& name : names) files[rank].push_back({dir.path(std::to_string(rank) + "/" + name), ""});
  }
  return files;
}

// Writes a file for worker 0 and copies it to the others. Returns the offsets of its records.
std::vector<int64_t> write_copies(const std::vector<std::vector<data::IndexedFile>>& files, size_t number,
                                  int records) {
  const std::vector<int64_t> offsets = test::write_record_file(files[0][number].path, records, 6, 6, 3, 2);
  for (uint32_t rank = 1; rank < kIndexingWorkers; rank++) {
    std::filesystem::copy_file(files[0][number].path, files[rank][number].path);
  }
  return offsets;
}

std::string index_of(const data::IndexedFile& file) {
  return data::index_path(file.path);
}

// A coordinator for worker 1 of 2. The test's function says what worker 0 sends in an all-gather.
class Scripted final : public job::Coordinator {
 public:
  using Answer = std::function<Result<job::Contribution>(const std::string& name)>;
  explicit Scripted(Answer answer) : answer_(std::move(answer)) {}
  [[nodiscard]] uint32_t rank() const override { return 1; }
  [[nodiscard]] uint32_t workers() const override { return 2; }
  Result<bool> may_begin(uint64_t) override { return true; }
  Result<std::vector<double>> sum(const std::string&, std::span<const double> values) override {
    return std::vector<double>(values.begin(), values.end());
  }
  void report(const job::WorkerProgress&) override {}

 private:
  Result<std::vector<job::Contribution>> gather(const std::string& name, job::Contribution own,
                                                std::span<const uint32_t>) override {
    DT_TRY(job::Contribution first, answer_(name));
    return std::vector<job::Contribution>{std::move(first), std::move(own)};
  }

  Answer answer_;
};

}  // namespace

TEST_CASE("only worker 0 indexes, and workers with their own copies receive the offsets", "[role]") {
  const test::TempDir dir;
  const auto files = own_files(dir, {"train.rec", "val.rec"});
  const std::vector<int64_t> train = write_copies(files, 0, 40), val = write_copies(files, 1, 7);
  for (const Shared& known : share(files)) {
    INFO((known ? "" : known.error().text()));
    REQUIRE(known);
    REQUIRE(known->size() == 2);
    for (const auto& [path, offsets] : *known) CHECK(offsets == (path.ends_with("train.rec") ? train : val));
  }
  for (size_t number = 0; number < 2; number++) {
    CHECK(std::filesystem::exists(index_of(files[0][number])));  // kept for the next job
    for (uint32_t rank = 1; rank < kIndexingWorkers; rank++)
      CHECK_FALSE(std::filesystem::exists(index_of(files[rank][number])));
  }
}

TEST_CASE("a process that trains alone indexes only the files without an index", "[role]") {
  const test::TempDir dir;
  const std::vector<data::IndexedFile> files = {{dir.path("train.rec"), ""}, {dir.path("val.rec"), ""}};
  const std::vector<int64_t> offsets = test::write_record_file(files[0].path, 9, 6, 6, 3, 2);
  (void)test::write_record_file(files[1].path, 3, 6, 6, 3, 2);
  test::write_text(dir.path("val.idx"), "0\t0\n");
  const data::KnownOffsets known = must(make_indexes(files, dir.path(), Log::silent()));
  REQUIRE(known.size() == 1);
  CHECK(known.at(files[0].path) == offsets);
  CHECK(std::filesystem::exists(dir.path("train.idx")));
  CHECK(must(make_indexes(files, dir.path(), Log::silent())).empty());
}

TEST_CASE("workers that share worker 0's files read the index that it has written", "[role]") {
  const test::TempDir dir;
  const std::vector<data::IndexedFile> shared = {{dir.path("train.rec"), ""}};
  const std::vector<int64_t> offsets = test::write_record_file(shared[0].path, 40, 6, 6, 3, 2);
  const std::vector<Shared> all = share({shared, shared, shared});
  for (const Shared& known : all) REQUIRE(known);
  CHECK(all[0]->at(shared[0].path) == offsets);
  CHECK(all[1]->empty());
  CHECK(all[2]->empty());
  CHECK(must(data::read_index(dir.path("train.idx"), 1'000'000)) == offsets);
}

TEST_CASE("workers without an index use that of worker 0, and the others keep theirs", "[role]") {
  const test::TempDir dir;
  const auto files = own_files(dir, {"train.rec"});
  const std::vector<int64_t> offsets = write_copies(files, 0, 10);
  test::write_text(index_of(files[0][0]), fmt::format("0\t{}\n1\t{}\n", offsets[2], offsets[5]));
  std::filesystem::copy_file(index_of(files[0][0]), index_of(files[1][0]));
  const std::vector<Shared> all = share(files);
  for (const Shared& known : all) REQUIRE(known);
  CHECK(all[1]->empty());
  CHECK(all[2]->at(files[2][0].path) == std::vector<int64_t>{offsets[2], offsets[5]});
}

TEST_CASE("no record file is read if all workers have an index", "[role]") {
  const test::TempDir dir;
  const auto files = own_files(dir, {"absent.rec"});
  for (uint32_t rank = 0; rank < kIndexingWorkers; rank++) test::write_text(index_of(files[rank][0]), "0\t0\n");
  for (const Shared& known : share(files)) {
    REQUIRE(known);
    CHECK(known->empty());
  }
}

TEST_CASE("the error of a different file names the worker, the file and the difference", "[role]") {
  const test::TempDir dir;
  const auto files = own_files(dir, {"train.rec"});
  write_copies(files, 0, 10);
  std::filesystem::remove(files[2][0].path);
  (void)test::write_record_file(files[2][0].path, 11, 6, 6, 3, 2);
  const std::vector<Shared> all = share(files);
  REQUIRE(all[1]);
  REQUIRE_FALSE(all[2]);
  CHECK(all[2].error().code == Code::kData);
  CHECK_THAT(all[2].error().message, Catch::Contains(files[2][0].path) && Catch::Contains("bytes on this host"));
  CHECK_THAT(all[2].error().text(), Catch::Contains("as worker 2") && Catch::Contains("worker 0 has sent"));
  CHECK_FALSE(std::filesystem::exists(index_of(files[2][0])));  // worker 2 does not scan its file
}

TEST_CASE("workers with different numbers of files are an error", "[role]") {
  const test::TempDir dir;
  auto files = own_files(dir, {"train.rec"});
  files.resize(2);
  files[0].clear();
  Waits waits;
  Pacer pacer({}, waits);
  const Log log = Log::silent();
  Scripted scheduler([](const std::string&) { return job::FileCount{0}; });
  const Shared known = share_indexes(files[1], {.coordinator = scheduler, .waits = waits, .log = log, .pacer = pacer});
  REQUIRE_FALSE(known);
  CHECK(known.error().code == Code::kUsage);
  CHECK_THAT(known.error().message, Catch::Contains("worker 1 has 1 record files, but worker 0 has 0"));
}

// Worker 0 dies while it indexes. The other workers' error says what they were waiting for.
TEST_CASE("a waiting worker names the worker, the file and the progress it waits for", "[role]") {
  const test::TempDir dir;
  const std::vector<data::IndexedFile> files = {{dir.path("train.rec"), ""}};
  (void)test::write_record_file(files[0].path, 20, 6, 6, 3, 2);
  const uint64_t size = std::filesystem::file_size(files[0].path);
  Waits waits;
  std::string name_of_wait;
  int reports = 0;
  Scripted scheduler([&](const std::string& name) -> Result<job::Contribution> {
    if (name == "the number of record files") return job::FileCount{1};
    name_of_wait = waits.open().empty() ? "none" : waits.open().front().name;
    if (++reports == 3) return fail(Code::kPeerLost, "worker 0 was lost: silent for 3000 ms");
    return job::IndexProgress{.is_done = false, .offset = size * static_cast<uint64_t>(reports) / 4};
  });
  Pacer pacer({}, waits);
  const Log log = Log::silent();
  const Shared known = share_indexes(files, {.coordinator = scheduler, .waits = waits, .log = log, .pacer = pacer});
  REQUIRE_FALSE(known);
  CHECK(known.error().code == Code::kPeerLost);
  const std::string waiting = fmt::format("worker 0 to index '{}' (50% done)", files[0].path);
  CHECK(name_of_wait == waiting);
  CHECK_THAT(known.error().text(),
             Catch::Contains("worker 0 was lost") && Catch::Contains("while waiting for " + waiting));
  CHECK(waits.open().empty());
}

TEST_CASE("worker 0 reports its progress while it indexes", "[role]") {
  const test::TempDir dir;
  const std::vector<data::IndexedFile> files = {{dir.path("train.rec"), ""}};
  (void)test::write_record_file(files[0].path, 800, 24, 24, 3, 2);
  REQUIRE(std::filesystem::file_size(files[0].path) > 4 * (64 << 10));
  for (const Shared& known : share({files, files}, std::chrono::milliseconds(0))) REQUIRE(known);
}

namespace {

// Runs `call` on each worker, on its own thread. Returns the results by rank.
template <class Call>
auto on_each(uint32_t workers, const Call& call) {
  train::test::Meetings meetings(workers);
  std::vector<std::future<decltype(call(std::declval<train::test::Member&>()))>> running;
  for (uint32_t rank = 0; rank < workers; rank++) {
    running.push_back(std::async(std::launch::async, [&, rank] {
      train::test::Member member(meetings, rank);
      return call(member);
    }));
  }
  std::vector<decltype(running.front().get())> results;
  for (auto& one : running) results.push_back(one.get());
  return results;
}

std::string random_bytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

}  // namespace

TEST_CASE("worker 0 broadcasts strings of any length", "[role]") {
  for (const size_t size : {size_t{0}, size_t{1}, kChunkBytes - 1, kChunkBytes, kChunkBytes + 1, 3 * kChunkBytes + 5}) {
    INFO(size);
    const std::string bytes = random_bytes(size, size);
    const auto received = on_each(kIndexingWorkers, [&](train::test::Member& member) {
      return broadcast(member, "bytes", member.rank() == 0 ? bytes : "other");
    });
    for (const Result<std::string>& one : received) CHECK(must(one) == bytes);
  }
}

TEST_CASE("a chunk that does not fit the announced size is an error", "[role]") {
  const std::vector<job::Chunk> wrong = {{.size = 3, .bytes = "four"}, {.size = 3, .bytes = ""}};
  for (const job::Chunk& chunk : wrong) {
    Scripted scheduler([&](const std::string&) { return chunk; });
    const Result<std::string> received = broadcast(scheduler, "bytes", "");
    REQUIRE_FALSE(received);
    CHECK_THAT(received.error().message, Catch::Contains("worker 0 sent"));
  }
}

// An address of gloo has about 136 bytes for each other worker.
TEST_CASE("workers exchange addresses as long as those of 14 and 64 allreduce workers", "[role]") {
  for (const uint32_t workers : {14U, 64U}) {
    const auto address = [&](uint32_t rank) { return random_bytes((workers - 1) * size_t{136} + 24, rank); };
    const auto received = on_each(workers, [&](train::test::Member& member) {
      return exchange_addresses(member, "addresses of the workers", address(member.rank()));
    });
    for (const Result<std::vector<std::string>>& of_one : received) {
      const std::vector<std::string>& all = must(of_one);
      REQUIRE(all.size() == workers);
      for (uint32_t rank = 0; rank < workers; rank++) CHECK(all[rank] == address(rank));
    }
  }
}

TEST_CASE("a message of an unexpected kind is an error that names its sender", "[role]") {
  Scripted scheduler([](const std::string&) { return job::Speed{1}; });
  const auto all = exchange_addresses(scheduler, "addresses", "here");
  REQUIRE_FALSE(all);
  CHECK(all.error().message == "barrier 'addresses': worker 0 sent a different kind of message than this worker");
}
