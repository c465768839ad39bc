#include "rpc/state_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <span>
#include <thread>
#include <utility>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "base/unique_fd.h"
#include "base/write_all.h"
#include "scheduler.pb.h"

namespace dtrain::rpc {
namespace {

constexpr const char* kJobKey = "file job";
constexpr const char* kTermKey = "file term";
constexpr size_t kHeaderBytes = 12;  // the record's length, its checksum, and the checksum of these two
constexpr uint64_t kFileBytesMax = uint64_t{1} << 32;
// A file is written anew, without what is obsolete, when it has grown by this and is four times as large as then.
constexpr uint64_t kGrowthMin = 64 << 20;
constexpr uint64_t kGrowthTimes = 4;

std::string number_text(uint32_t number) {
  std::array<uint8_t, 4> bytes{};
  store_u32(bytes.data(), number);
  return {bytes.begin(), bytes.end()};
}
uint32_t number_at(std::string_view bytes) {
  return load_u32(as_bytes(bytes).data());
}
uint32_t checksum(std::string_view bytes) {
  return crc32c(std::as_bytes(std::span(bytes)));
}

std::string record_of(const StateFile::Texts& texts) {
  proto::StateRecord record;
  for (const auto& [key, text] : texts) (*record.mutable_texts())[key] = text;
  const std::string content = record.SerializeAsString();
  const std::string header = number_text(static_cast<uint32_t>(content.size())) + number_text(checksum(content));
  return header + number_text(checksum(header)) + content;
}

// The texts of all records. A last record that was not written to its end does not count.
Result<StateFile::Texts> read_records(const std::string& path, std::string_view bytes) {
  const auto damaged = [&](size_t at) {
    return fail(Code::kData,
                "'{}' is damaged at byte {} of {}, so it does not say what the last scheduler has decided; if its job "
                "is over, remove the file",
                path, at, bytes.size());
  };
  StateFile::Texts texts;
  for (size_t at = 0; bytes.size() - at >= kHeaderBytes;) {
    const std::string_view header = bytes.substr(at, kHeaderBytes);
    if (checksum(header.substr(0, 8)) != number_at(header.substr(8))) return damaged(at);
    const size_t length = number_at(header);
    if (bytes.size() - at - kHeaderBytes < length) break;
    const std::string_view content = bytes.substr(at + kHeaderBytes, length);
    proto::StateRecord record;
    if (checksum(content) != number_at(header.substr(4)) ||
        !record.ParseFromArray(content.data(), static_cast<int>(content.size()))) {
      return damaged(at);
    }
    for (auto& [key, text] : *record.mutable_texts()) texts[key] = std::move(text);
    at += kHeaderBytes + length;
  }
  if (!texts.contains(kJobKey) || !texts.contains(kTermKey)) return damaged(0);
  return texts;
}

class File final : public StateFile {
 public:
  explicit File(const Options& options)
      : options_(options),
        path_(options.directory + "/scheduler.state"),
        lock_path_(options.directory + "/scheduler.lock") {}
  ~File() override { end(); }

  Result<> open_all() {
    DT_TRY_VOID(make_directories(options_.directory), "--state-dir {}", options_.directory);
    DT_TRY_VOID(lock());
    DT_TRY_VOID(read());
    texts_[kJobKey] = options_.job;
    texts_[kTermKey] = std::to_string(++term_);
    DT_TRY_VOID(write_anew());
    texts_without_own_ = texts_;
    texts_without_own_.erase(kJobKey);
    texts_without_own_.erase(kTermKey);
    return {};
  }

  [[nodiscard]] uint64_t term() const override { return term_; }
  [[nodiscard]] const Texts& texts() const override { return texts_without_own_; }

  void begin(std::function<void(const Result<uint64_t>&)> on_written) override {
    texts_without_own_.clear();
    on_written_ = std::move(on_written);
    thread_ = std::thread([this] { run(); });
  }
  void append(uint64_t number, Texts changes) override {
    const MutexLock lock(mutex_);
    waiting_.push_back({number, std::move(changes)});
    changed_.notify_all();
  }
  void end() override {
    {
      const MutexLock lock(mutex_);
      is_ending_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }
  void remove() override {
    end();
    if (check_lock()) ::unlink(path_.c_str());
  }

 private:
  struct Waiting {
    uint64_t number = 0;
    Texts changes;
  };

  Result<> lock() {
    lock_ = UniqueFd(::open(lock_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!lock_.open()) return fail(Code::kUsage, "cannot open '{}': {}", lock_path_, std::strerror(errno));
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return {};
    if (errno == EWOULDBLOCK) {
      return fail(Code::kUsage,
                  "--state-dir {}: another scheduler uses this directory; give each job a directory of its own",
                  options_.directory);
    }
    return fail(Code::kUsage, "cannot lock '{}': {}; give a --state-dir on a local disk", lock_path_,
                std::strerror(errno));
  }

  // Without its lock, this object must not touch a file that may be another scheduler's. The lock is gone if somebody
  // has removed it.
  [[nodiscard]] Result<> check_lock() const {
    struct stat own {};
    struct stat there {};
    const bool is_there = ::fstat(lock_.get(), &own) == 0 && ::stat(lock_path_.c_str(), &there) == 0;
    if (is_there && own.st_ino == there.st_ino && own.st_dev == there.st_dev) return {};
    return fail(Code::kData, "cannot write '{}': '{}' was removed, so another scheduler may use the directory", path_,
                lock_path_);
  }

  Result<> read() {
    const Result<std::string> bytes = read_file(path_, kFileBytesMax);
    if (!bytes && bytes.error().code != Code::kNotFound) return tl::unexpected(bytes.error());
    if (!bytes && options_.comes_back) {
      return fail(Code::kSchedulerLost, "there is no '{}', so this scheduler cannot continue the job", path_);
    }
    if (!bytes) return {};
    DT_TRY(Texts found, read_records(path_, *bytes));
    if (found[kJobKey] != options_.job) {
      return fail(Code::kUsage,
                  "--state-dir {}: '{}' belongs to the job in '{}', which has not ended; give each job a directory of "
                  "its own, or remove the file if that job is over",
                  options_.directory, path_, found[kJobKey]);
    }
    term_ = std::strtoull(found[kTermKey].c_str(), nullptr, 10);
    if (options_.comes_back) texts_ = std::move(found);
    return {};
  }

  // Writes all texts into a new file, which takes the old one's place.
  Result<> write_anew() {
    const std::string record = record_of(texts_);
    DT_TRY(AtomicFile file, AtomicFile::create(path_, options_.fault));
    DT_TRY_VOID(file.write(record));
    DT_TRY_VOID(file.commit());
    file_ = UniqueFd(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (!file_.open()) return cannot("open");
    bytes_ = record.size();
    bytes_max_ = std::max(bytes_ + kGrowthMin, kGrowthTimes * bytes_);
    return {};
  }

  tl::unexpected<Error> cannot(const char* call) const {
    return fail(Code::kData, "cannot write '{}': {}: {}", path_, call, std::strerror(errno));
  }
  bool is_faulty(const char* call) const {
    errno = options_.fault ? options_.fault(call) : 0;
    return errno != 0;
  }
  Result<> write_record(const Texts& changes) {
    DT_TRY_VOID(check_lock());
    for (const auto& [key, text] : changes) texts_[key] = text;
    const std::string record = record_of(changes);
    if (bytes_ + record.size() > bytes_max_) return write_anew();
    if (is_faulty("write") || !write_all(file_.get(), record)) return cannot("write");
    bytes_ += record.size();
    if (is_faulty("fsync") || ::fdatasync(file_.get()) != 0) return cannot("fsync");
    return {};
  }

  std::deque<Waiting> take_waiting() {
    const MutexLock lock(mutex_);
    changed_.wait(mutex_, [this]() DT_REQUIRES(mutex_) { return is_ending_ || !waiting_.empty(); });
    return std::exchange(waiting_, {});
  }
  // Records that have come while others were written are written together.
  void run() {
    name_thread("state file");
    for (std::deque<Waiting> records = take_waiting(); !records.empty(); records = take_waiting()) {
      Texts changes;
      for (Waiting& record : records) {
        for (auto& [key, text] : record.changes) changes[key] = std::move(text);
      }
      const Result<> written = catching([&] { return write_record(changes); }, "the state file");
      if (written) {
        on_written_(records.back().number);
        continue;
      }
      if (check_lock()) ::unlink(path_.c_str());
      return on_written_(tl::unexpected(written.error()));
    }
  }

  const Options options_;
  const std::string path_, lock_path_;
  UniqueFd lock_, file_;
  uint64_t term_ = 0;
  Texts texts_;                         // all that is in the file
  Texts texts_without_own_;             // until begin(): what the last scheduler has written
  uint64_t bytes_ = 0, bytes_max_ = 0;  // size of the file, and the size above which it is written anew
  std::function<void(const Result<uint64_t>&)> on_written_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<Waiting> waiting_ DT_GUARDED_BY(mutex_);
  bool is_ending_ DT_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<StateFile>> StateFile::open(const Options& options) {
  auto file = std::make_unique<File>(options);
  DT_TRY_VOID(file->open_all());
  return std::unique_ptr<StateFile>(std::move(file));
}

}  // namespace dtrain::rpc
