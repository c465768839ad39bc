#include "kvstore/server/snapshots.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/crc32c.h"
#include "base/thread.h"
#include "base/unique_fd.h"

namespace dtrain::kvstore {
namespace {

constexpr std::string_view kPrefix = "snapshot-";
constexpr size_t kJobDigits = 8;

// The beginning of the names of a job's snapshots, "snapshot-0e3069a1-". The digits keep the files of jobs apart that
// use the same directory.
std::string job_prefix(const std::string& job) {
  return fmt::format("{}{:08x}-", kPrefix, crc32c(std::as_bytes(std::span(job))));
}

std::string snapshot_path(const std::string& directory, const SnapshotLayout& layout, uint64_t number, uint64_t life) {
  return fmt::format("{}/{}{}-{}-{}", directory, job_prefix(layout.job), layout.server, number, life);
}

// Removes a number from the front.
template <class Number>
bool take_number(std::string_view& text, Number& number) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<size_t>(stop - text.data()));
  return error == std::errc();
}
bool take_dash(std::string_view& text) {
  if (!text.starts_with('-')) return false;
  text.remove_prefix(1);
  return true;
}

// Parses "SERVER-NUMBER-LIFE REST", where the rest does not begin with a digit.
struct NameEnd {
  uint32_t server = 0;
  uint64_t number = 0, life = 0;
  std::string_view rest = {};
};
std::optional<NameEnd> parse_end(std::string_view text) {
  NameEnd end;
  if (!take_number(text, end.server) || !take_dash(text) || !take_number(text, end.number) || !take_dash(text) ||
      !take_number(text, end.life)) {
    return std::nullopt;
  }
  end.rest = text;
  return end;
}

// Looks at the files of a directory, one by one.
class Scan {
 public:
  Scan(const SnapshotOptions& options, const SnapshotLayout& layout)
      : options_(options), layout_(layout), own_prefix_(job_prefix(layout.job)) {}

  // Takes over the snapshots of the last life of this rank. Returns their numbers, sorted.
  Result<std::vector<uint64_t>> take_over() {
    std::error_code error;
    std::filesystem::directory_iterator next(options_.directory, error);
    for (; !error && next != std::filesystem::directory_iterator(); next.increment(error)) look_at(next->path());
    if (error) return fail(Code::kUsage, "cannot read the directory '{}': {}", options_.directory, error.message());
    uint64_t last = 0;
    for (const Found& found : found_) last = std::max(last, found.life);
    std::ranges::sort(found_, std::greater(), &Found::number);  // if this process is killed meanwhile, the newest count
    std::vector<uint64_t> durable;
    for (const Found& found : found_) {
      if (options_.life == 0 || found.life != last) {
        ::unlink(found.path.c_str());
      } else if (adopt(found)) {
        durable.insert(durable.begin(), found.number);
      }
    }
    return durable;
  }

 private:
  struct Found {
    std::string path;
    uint64_t number = 0, life = 0;
  };

  void look_at(const std::filesystem::path& path) {
    const std::string name = path.filename().string();
    if (!name.starts_with(kPrefix) || name.size() < own_prefix_.size()) return;
    const std::optional<NameEnd> end = parse_end(std::string_view(name).substr(own_prefix_.size()));
    if (!end || end->server != layout_.server) return;
    const bool is_own = name.starts_with(own_prefix_);
    if (end->rest.empty() && !is_own) {
      options_.log.info("{}: the snapshot is of another job; it is not used", path.string());
    } else if (end->rest.empty()) {
      found_.push_back({path.string(), end->number, end->life});
    } else if (is_own && end->rest.starts_with(".tmp-")) {
      ::unlink(path.c_str());
    }
  }

  // A server of an earlier life no longer finds the file under its new name.
  bool adopt(const Found& found) {
    if (found.number > UINT64_MAX / layout_.every - 1) {
      options_.log.warn("{}: no snapshot has this number", found.path);
      return false;
    }
    const std::string own = snapshot_path(options_.directory, layout_, found.number, options_.life);
    if (::rename(found.path.c_str(), own.c_str()) != 0) {
      options_.log.warn("{}: cannot be renamed: {}", found.path, std::strerror(errno));
      return false;
    }
    const Result<> verified = verify_snapshot(own, layout_, found.number);
    if (!verified) options_.log.warn("{}", verified.error().message);
    return verified.has_value();
  }

  const SnapshotOptions& options_;
  const SnapshotLayout& layout_;
  const std::string own_prefix_;
  std::vector<Found> found_;  // with the names of snapshots of this job and rank
};

Result<> delete_files(const std::string& directory, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (::unlink(path.c_str()) == 0 || errno == ENOENT) continue;
    return fail(Code::kData, "cannot delete the snapshot '{}': {}", path, std::strerror(errno));
  }
  const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() >= 0 && ::fsync(fd.get()) == 0) return {};
  return fail(Code::kData, "cannot delete snapshots in '{}': {}", directory, std::strerror(errno));
}

}  // namespace

Result<std::unique_ptr<Snapshots>> Snapshots::open(SnapshotOptions options, SnapshotLayout layout, size_t kept,
                                                   std::function<void()> on_limit) {
  DT_TRY_VOID(make_directories(options.directory));
  DT_TRY(std::vector<uint64_t> durable, Scan(options, layout).take_over());
  SnapshotLedger ledger(layout.every, layout.slices.size(), kept, std::move(durable));
  return std::unique_ptr<Snapshots>(
      new Snapshots(std::move(options), std::move(layout), std::move(ledger), std::move(on_limit)));
}

Snapshots::Snapshots(SnapshotOptions options, SnapshotLayout layout, SnapshotLedger ledger,
                     std::function<void()> on_limit)
    : options_(std::move(options)),
      layout_(std::move(layout)),
      on_limit_(std::move(on_limit)),
      ledger_(std::move(ledger)),
      told_(ledger_.durable()) {
  thread_ = std::thread([this] { serve(); });
}

Snapshots::~Snapshots() {
  stop();
}

void Snapshots::stop() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Snapshots::discard() {
  stop();
  SnapshotOptions none = options_;
  none.life = 0;
  static_cast<void>(Scan(none, layout_).take_over());  // what stays is of no harm
  std::error_code ignored;
  std::filesystem::remove(options_.directory, ignored);  // if it is empty
}

std::string Snapshots::path_of(uint64_t number) const {
  return snapshot_path(options_.directory, layout_, number, options_.life);
}

std::vector<uint64_t> Snapshots::durable() const {
  const MutexLock lock(mutex_);
  return ledger_.durable();
}

void Snapshots::on_change() {
  const uint64_t before = limit_.exchange(ledger_.limit());
  has_risen_ = has_risen_ || ledger_.limit() > before;
  changed_.notify_all();
}

void Snapshots::take(SnapshotPart part) {
  const MutexLock lock(mutex_);
  ledger_.take(std::move(part));
  on_change();
}

void Snapshots::begin_at(uint64_t version) {
  const MutexLock lock(mutex_);
  ledger_.begin_at(version);
  on_change();
}

Result<std::vector<SnapshotPart>> Snapshots::read(uint64_t number) const {
  if (!std::ranges::binary_search(durable(), number)) {
    return fail(Code::kNotFound, "server {} has no snapshot {}", layout_.server, number);
  }
  return read_snapshot(path_of(number), layout_, number);
}

Result<> Snapshots::go_back(uint64_t number) {
  const MutexLock lock(mutex_);
  deleted_ = {};
  ledger_.go_back(number);
  on_change();
  changed_.wait(mutex_, [&]() DT_REQUIRES(mutex_) { return stop_ || (!is_busy_ && !ledger_.has_outdated()); });
  return deleted_;
}

bool Snapshots::is_abandoned() const {
  const MutexLock lock(mutex_);
  return stop_ || ledger_.is_abandoned();
}

// The following functions run on the thread.

void Snapshots::serve() {
  name_thread("snapshots");
  run_in_background();
  const MutexLock lock(mutex_);
  while (true) {
    changed_.wait(mutex_, [this]() DT_REQUIRES(mutex_) {
      return stop_ || has_risen_ || ledger_.has_outdated() || ledger_.has_complete();
    });
    if (stop_) return;
    is_busy_ = true;
    if (has_risen_) {
      release();
    } else {
      ledger_.has_outdated() ? delete_outdated() : write_next();
    }
    tell_durable();
    is_busy_ = false;
    changed_.notify_all();
  }
}

void Snapshots::delete_outdated() {
  std::vector<std::string> paths;
  for (const uint64_t number : ledger_.take_outdated()) paths.push_back(path_of(number));
  Result<> deleted;
  {
    const MutexUnlock unlocked(mutex_);
    deleted = delete_files(options_.directory, paths);
    if (!deleted) options_.log.warn("{}", deleted.error().message);
  }
  if (deleted_) deleted_ = std::move(deleted);
}

void Snapshots::release() {
  has_risen_ = false;
  const MutexUnlock unlocked(mutex_);
  on_limit_();
}

void Snapshots::write_next() {
  std::optional<SnapshotLedger::Complete> snapshot = ledger_.begin_write();
  const uint64_t number = snapshot->number;
  Result<> written;
  {
    const MutexUnlock unlocked(mutex_);
    written = catching([&] { return write(*snapshot); }, "a snapshot");
    snapshot.reset();  // releases the values
  }
  const bool was_wanted = !ledger_.is_abandoned();
  ledger_.end_write(written.has_value());
  if (stop_) return;
  on_change();
  const MutexUnlock unlocked(mutex_);
  if (was_wanted) report(number, written);
}

Result<> Snapshots::write(const SnapshotLedger::Complete& snapshot) {
  if (options_.on_write) options_.on_write(snapshot.number);
  return write_snapshot(
      path_of(snapshot.number), layout_, snapshot.number, snapshot.parts, [this] { return is_abandoned(); },
      options_.fault);
}

// A full disk may stay full for hours, so only the first failure is logged.
void Snapshots::report(uint64_t number, const Result<>& written) {
  const bool was_failing = std::exchange(is_failing_, !written);
  if (written) {
    if (was_failing) options_.log.info("snapshot {} is written again", number);
    return;
  }
  if (!was_failing) {
    options_.log.warn(
        "snapshot {} of server {} could not be written: {}; training continues, and the next snapshots are tried again",
        number, layout_.server, written.error().message);
  }
  if (options_.on_failure) options_.on_failure(number, written.error());
}

void Snapshots::tell_durable() {
  if (told_ == ledger_.durable()) return;
  told_ = ledger_.durable();
  if (!options_.on_durable) return;
  const std::vector<uint64_t> durable = told_;
  const MutexUnlock unlocked(mutex_);
  options_.on_durable(durable);
}

}  // namespace dtrain::kvstore
