#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/thread.h"
#include "base/unique_fd.h"
#include "doctor/gather.h"
#include "job/flags/flags.h"
#include "role/setup/data.h"
#include "role/setup/device_loader.h"
#include "role/setup/devices.h"
#include "role/setup/memory_need.h"
#include "role/setup/network.h"
#include "role/setup/threads.h"
#include "role/setup/update.h"

namespace dtrain::doctor {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int64_t kWholeMax = int64_t{64} << 20;  // the largest file that is read as a whole
// Number of bytes read at the beginning, and at the end, of a larger file.
constexpr int64_t kSample = int64_t{1} << 20;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

uint32_t add_part(int file, int64_t begin, int64_t bytes, uint32_t checksum) {
  std::vector<std::byte> buffer(static_cast<size_t>(kSample));
  while (bytes > 0) {
    const ssize_t got = ::pread(file, buffer.data(), static_cast<size_t>(std::min(bytes, kSample)), begin);
    if (got <= 0) break;
    checksum = crc32c(std::span(buffer).first(static_cast<size_t>(got)), checksum);
    begin += got;
    bytes -= got;
  }
  return checksum;
}

DataFile look_at(const std::string& path) {
  DataFile found{.path = path};
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!file.open() || ::fstat(file.get(), &status) != 0) {
    found.error = fmt::format("{}: {}", path, std::strerror(errno));
    return found;
  }
  found.bytes = status.st_size;
  if (found.bytes <= kWholeMax) {
    found.checksum = add_part(file.get(), 0, found.bytes, 0);
  } else {
    found.checksum = add_part(file.get(), found.bytes - kSample, kSample, add_part(file.get(), 0, kSample, 0));
  }
  return found;
}

// Describes a directory with one subdirectory for each class as if it were one file: its size is the number of its
// images, and its checksum covers the names of the subdirectories.
DataFile look_at_directory(const std::string& path) {
  DataFile found{.path = path};
  std::vector<std::string> classes;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    if (!entry.is_directory(error)) continue;
    classes.push_back(entry.path().filename().string());
    found.bytes += std::distance(fs::directory_iterator(entry.path(), error), fs::directory_iterator());
  }
  std::sort(classes.begin(), classes.end());
  const std::string names = fmt::format("{}", fmt::join(classes, "\n"));
  found.checksum = crc32c(std::as_bytes(std::span(names)));
  return found;
}

Result<> add_set(const data::SetFiles& set, std::vector<DataFile>& files) {
  DT_TRY(const std::vector<data::IndexedFile> records, data::records_of(set));
  for (const data::IndexedFile& record : records) {
    files.push_back(look_at(record.path));
    const std::string index = record.index.empty() ? data::index_path(record.path) : record.index;
    std::error_code error;
    if (fs::exists(index, error) || !record.index.empty()) files.push_back(look_at(index));
  }
  for (const std::string& path : {set.images, set.labels}) {
    if (!path.empty()) files.push_back(look_at(path));
  }
  for (const std::string& path : set.cifar) files.push_back(look_at(path));
  if (!set.directory.empty()) files.push_back(look_at_directory(set.directory));
  return {};
}

// Finds the numbers of --gpus all, too.
void look_at_gpus(job::GpuList& asked, Gpus& gpus) {
  gpus.asked = !asked.empty();
  if (!gpus.asked) return;
  std::ifstream driver("/proc/driver/nvidia/version");
  for (std::string word; driver >> word;) {
    const bool is_version =
        word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos;
    if (is_version && gpus.driver.empty()) gpus.driver = word;
  }
  const auto module = role::load_devices();
  if (!module) {
    gpus.error = module.error().message;
    return;
  }
  const exec::DeviceModule::Versions versions = (*module)->versions();
  if (gpus.driver.empty()) gpus.driver = versions.driver;
  gpus.cuda = versions.runtime;
  gpus.nccl = versions.collectives;
  gpus.count = (*module)->device_count().value_or(0);
  if (const Result<> found = job::set_numbers(asked, gpus.count); !found) gpus.error = found.error().message;
  for (const int64_t gpu : asked.numbers) {
    const Result<std::string> text = (*module)->describe(static_cast<int>(gpu));
    if (text) {
      gpus.found.push_back(fmt::format("gpu({}) {}", gpu, *text));
    } else {
      gpus.error = fmt::format("{} (the host has {} GPUs, numbered from 0)", text.error().message, gpus.count);
    }
  }
}

bool names_data(const job::Flags& flags) {
  const job::DataFlags& data = flags.data;
  return !flags.job.augment.benchmark && (!data.data_dir.empty() || !data.data_train.empty());
}

// Each server holds its part of the weights, of the sums and of the optimizer's state. Without servers, each worker
// holds all weights and all of the optimizer's state.
Result<MemoryNeeds> memory_needs(const job::Flags& flags) {
  DT_TRY(const role::Network network, role::build_network(flags.job));
  DT_TRY(const std::vector<std::string> slots, optim::state_slots(role::optimizer_spec(flags.job)));
  const role::MemoryNeed need = role::memory_need(network);
  const double weights = need.weights / 2;  // need.weights covers the weights and, with the same size, the gradients
  const auto copies = static_cast<double>(slots.size());
  const auto servers = static_cast<double>(flags.job.num_servers);
  MemoryNeeds needs;
  needs.checkpoint = weights * (1 + copies);
  if (servers > 0) needs.server = weights * (2 + copies) / servers;
  if (flags.device.gpus.empty()) {
    const auto devices = static_cast<double>(role::device_count(flags));
    needs.worker = need.weights * devices + need.activations * static_cast<double>(flags.job.batch_size);
  } else {
    needs.worker = need.weights;  // the host's memory has copies of the weights and the gradients
  }
  if (servers == 0) needs.worker += weights * copies;
  return needs;
}

// The test of writing ends after this number of bytes, or after a second or two.
constexpr size_t kWritten = size_t{64} << 20;

void measure_writing(const std::string& directory, Speeds& speeds) {
  const UniqueFd file(::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (!file.open()) {
    speeds.disk_error = fmt::format("cannot measure the speed of '{}': {}", directory, std::strerror(errno));
    return;
  }
  const std::vector<char> block(1 << 20, 'x');
  size_t written = 0;
  const auto begin = Clock::now();
  while (written < kWritten && seconds_since(begin) < 2) {
    const ssize_t put = ::write(file.get(), block.data(), block.size());
    if (put <= 0) {
      speeds.disk_error = fmt::format("writing to '{}': {}", directory, std::strerror(errno));
      return;
    }
    written += static_cast<size_t>(put);
  }
  if (::fdatasync(file.get()) != 0)
    speeds.disk_error = fmt::format("fsync in '{}': {}", directory, std::strerror(errno));
  speeds.disk_write = static_cast<double>(written) / std::max(1e-9, seconds_since(begin));
}

// Measures reading the largest file, after asking the kernel to drop it from the page cache.
void measure_reading(const std::vector<DataFile>& files, Speeds& speeds) {
  const auto largest = std::max_element(files.begin(), files.end(),
                                        [](const DataFile& a, const DataFile& b) { return a.bytes < b.bytes; });
  std::error_code error;
  if (largest == files.end() || !fs::is_regular_file(largest->path, error)) return;
  const UniqueFd file(::open(largest->path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) return;
  (void)::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  std::vector<char> block(1 << 20);
  size_t total = 0;
  const auto begin = Clock::now();
  while (total < kWritten && seconds_since(begin) < 2) {
    const ssize_t got = ::read(file.get(), block.data(), block.size());
    if (got <= 0) break;
    total += static_cast<size_t>(got);
  }
  if (total >= size_t{1} << 20) speeds.disk_read = static_cast<double>(total) / std::max(1e-9, seconds_since(begin));
}

}  // namespace

Result<std::vector<DataFile>> data_files(const job::Flags& flags) {
  DT_TRY(const data::Located located, role::locate_data(flags));
  std::vector<DataFile> files;
  DT_TRY_VOID(add_set(located.train, files));
  DT_TRY_VOID(add_set(located.validation, files));
  return files;
}

void measure_disk(const RunDirectory& directory, const std::vector<DataFile>& files, Speeds& speeds) {
  if (directory.writable) measure_writing(directory.existing, speeds);
  measure_reading(files, speeds);
}

void measure_decoding(const job::Flags& flags, Speeds& speeds) {
  constexpr double kSeconds = 1;
  const Result<data::DataSets> opened = role::open_data(flags, 0, Log::silent());
  if (!opened) {
    speeds.decode_error = opened.error().message;
    return;
  }
  const data::Dataset& train = *opened->train;
  const size_t image = static_cast<size_t>(element_count(train.image()));
  ThreadPool pool(std::max(1, role::plan_threads(flags).decode), "decode");
  const int64_t each = 16;
  std::atomic<int64_t> done = 0;
  const auto begin = Clock::now();
  for (int64_t next = 0; seconds_since(begin) < kSeconds; next += each * pool.size()) {
    pool.parallel_for(pool.size(), [&](int64_t part) {
      std::vector<float> pixels(image), labels(train.label_width());
      for (int64_t i = 0; i < each; i++) {
        const int64_t record = (next + part * each + i) % train.size();
        RandomStream random(0, Use::kAugment, 0, static_cast<uint64_t>(record));
        if (train.load(record, random, pixels, labels)) done++;
      }
    });
  }
  speeds.decode = static_cast<double>(done) / seconds_since(begin);
}

void gather_job(job::Flags flags, bool perf, Facts& facts) {
  const bool is_worker = flags.launch.role == job::Role::kWorker || flags.launch.role == job::Role::kNone;
  if (is_worker) look_at_gpus(flags.device.gpus, facts.gpus);
  if (is_worker && names_data(flags)) {
    Result<std::vector<DataFile>> files = data_files(flags);
    if (files) {
      facts.files = std::move(*files);
    } else {
      facts.data_error = files.error().message;
    }
  }
  const Result<> completed = role::complete_flags(flags);
  const Result<MemoryNeeds> needs = completed.and_then([&] { return memory_needs(flags); });
  if (needs) {
    facts.needs = *needs;
  } else if (flags.given("network") || names_data(flags)) {
    facts.needs.error = completed ? needs.error().message : completed.error().message;
  }
  if (!perf) return;
  measure_disk(facts.run_directory, facts.files, facts.speeds);
  if (completed && is_worker && names_data(flags)) measure_decoding(flags, facts.speeds);
}

}  // namespace dtrain::doctor
