#include "role/worker/indexing.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <future>
#include <random>

#include "data/make_images.h"
#include "data/open.h"
#include "role/worker/meeting.h"
#include "support/must.h"
#include "support/temp_dir.h"
#include "train/members.h"

using namespace dtrain;
using namespace dtrain::role;
using dtrain::test::must;

namespace {

constexpr uint32_t kWorkers = 3;

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

// Gives each worker its own folder, as on three hosts.
std::vector<std::vector<data::IndexedFile>> own_files(const test::TempDir& dir, const std::vector<std::string>& names) {
  std::vector<std::vector<data::IndexedFile>> files(kWorkers);
  for (uint32_t rank = 0; rank < kWorkers; rank++) {
    std::filesystem::create_directories(dir.path(std::to_string(rank)));
    for (const std::string& name : names) files[rank].push_back({dir.path(std::to_string(rank) + "/" + name), ""});
  }
  return files;
}

// Writes a file for worker 0 and copies it to the others. Returns the offsets of its records.
std::vector<int64_t> write_copies(const std::vector<std::vector<data::IndexedFile>>& files, size_t number,
                                  int records) {
  const std::vector<int64_t> offsets = test::write_record_file(files[0][number].path, records, 6, 6, 3, 2);
  for (uint32_t rank = 1; rank < kWorkers; rank++) {
    std::filesystem::copy_file(files[0][number].path, files[rank][number].path);
  }
  return offsets;
}

std::string index_of(const data::IndexedFile& file) {
  return data::index_path(file.path);
}

// A coordinator for worker 1 of 2 whose barriers return what the test's function says.
class Scripted final : public job::Coordinator {
 public:
  using Answer = std::function<Result<std::vector<double>>(const std::string& name, std::vector<double> values)>;
  explicit Scripted(Answer answer) : answer_(std::move(answer)) {}
  [[nodiscard]] uint32_t rank() const override { return 1; }
  [[nodiscard]] uint32_t workers() const override { return 2; }
  Result<bool> may_begin(uint64_t) override { return true; }
  Result<std::vector<double>> meet(const std::string& name, std::span<const double> values,
                                   std::span<const uint32_t>) override {
    return answer_(name, {values.begin(), values.end()});
  }
  void report(const job::WorkerProgress&) override {}

 private:
  Answer answer_;
};

}  // namespace

TEST_CASE("worker 0 alone indexes, and workers with copies of their own are sent the offsets", "[role]") {
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
    for (uint32_t rank = 1; rank < kWorkers; rank++)
      CHECK_FALSE(std::filesystem::exists(index_of(files[rank][number])));
  }
}

TEST_CASE("workers that see the index which worker 0 has written read it", "[role]") {
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

TEST_CASE("the index of worker 0 is used where others have none, and own indexes stay", "[role]") {
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

TEST_CASE("nothing is read where all have their indexes", "[role]") {
  const test::TempDir dir;
  const auto files = own_files(dir, {"absent.rec"});
  for (uint32_t rank = 0; rank < kWorkers; rank++) test::write_text(index_of(files[rank][0]), "0\t0\n");
  for (const Shared& known : share(files)) {
    REQUIRE(known);
    CHECK(known->empty());
  }
}

TEST_CASE("a worker whose file differs is named with the file and what differs", "[role]") {
  const test::TempDir dir;
  const auto files = own_files(dir, {"train.rec"});
  write_copies(files, 0, 10);
  std::filesystem::remove(files[2][0].path);
  (void)test::write_record_file(files[2][0].path, 11, 6, 6, 3, 2);
  const std::vector<Shared> all = share(files);
  REQUIRE(all[1]);
  REQUIRE_FALSE(all[2]);
  CHECK(all[2].error().code == Code::kData);
  CHECK_THAT(all[2].error().message, Catch::Contains(files[2][0].path) && Catch::Contains("bytes here"));
  CHECK_THAT(all[2].error().text(), Catch::Contains("as worker 2") && Catch::Contains("worker 0 has made"));
  CHECK_FALSE(std::filesystem::exists(index_of(files[2][0])));  // worker 2 does not scan its file
}

TEST_CASE("workers with different numbers of files are told so", "[role]") {
  const test::TempDir dir;
  auto files = own_files(dir, {"train.rec"});
  files.resize(2);
  files[0].clear();
  Waits waits;
  Pacer pacer({}, waits);
  const Log log = Log::silent();
  Scripted scheduler([](const std::string&, const std::vector<double>&) { return std::vector<double>{0}; });
  const Shared known = share_indexes(files[1], {.coordinator = scheduler, .waits = waits, .log = log, .pacer = pacer});
  REQUIRE_FALSE(known);
  CHECK(known.error().code == Code::kUsage);
  CHECK_THAT(known.error().message, Catch::Contains("worker 1 has 1 record files, worker 0 has 0"));
}

// Worker 0 dies while it indexes. The other workers' error says what they were waiting for.
TEST_CASE("a worker that waits says for whom, for which file and how far it is", "[role]") {
  const test::TempDir dir;
  const std::vector<data::IndexedFile> files = {{dir.path("train.rec"), ""}};
  (void)test::write_record_file(files[0].path, 20, 6, 6, 3, 2);
  const auto size = static_cast<double>(std::filesystem::file_size(files[0].path));
  Waits waits;
  std::string name_of_wait;
  int reports = 0;
  Scripted scheduler([&](const std::string& name, std::vector<double> values) -> Result<std::vector<double>> {
    if (name == "the number of record files") return std::vector<double>{1};
    if (!name.starts_with("the index of record file")) return values;
    name_of_wait = waits.open().empty() ? "none" : waits.open().front().name;
    if (++reports == 3) return fail(Code::kPeerLost, "worker 0 was lost: silent for 3000 ms");
    return std::vector<double>{0, size * 0.25 * reports};
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

TEST_CASE("worker 0 reports while it indexes", "[role]") {
  const test::TempDir dir;
  const std::vector<data::IndexedFile> files = {{dir.path("train.rec"), ""}};
  (void)test::write_record_file(files[0].path, 800, 24, 24, 3, 2);
  REQUIRE(std::filesystem::file_size(files[0].path) > 4 * (64 << 10));
  for (const Shared& known : share({files, files}, std::chrono::milliseconds(0))) REQUIRE(known);
}

TEST_CASE("bytes of any number go from worker 0 to all", "[role]") {
  std::mt19937_64 random(5);
  for (const size_t size : {0, 1, 5, 6, 7, 4096 * 6 - 1, 4096 * 6, 4096 * 6 + 1, 200'000}) {
    INFO(size);
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    train::test::Meetings meetings(kWorkers);
    std::vector<std::future<Result<std::string>>> workers;
    for (uint32_t rank = 0; rank < kWorkers; rank++) {
      workers.push_back(std::async(std::launch::async, [&, rank] {
        train::test::Member member(meetings, rank);
        return broadcast(member, "bytes", rank == 0 ? bytes : "other");
      }));
    }
    for (auto& worker : workers) CHECK(must(worker.get()) == bytes);
  }
}
