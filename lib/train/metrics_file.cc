#include "train/metrics_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/json.h"

namespace dtrain::train {

Result<MetricsFile> MetricsFile::open(const std::string& path, std::string role, uint32_t rank) {
  MetricsFile file;
  file.path_ = path;
  file.role_ = std::move(role);
  file.rank_ = rank;
  file.fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file.fd_ < 0) return fail(Code::kUsage, "cannot write '{}': {}", path, std::strerror(errno));
  return file;
}

MetricsFile::MetricsFile(MetricsFile&& other) noexcept
    : path_(std::move(other.path_)),
      role_(std::move(other.role_)),
      rank_(other.rank_),
      fd_(std::exchange(other.fd_, -1)) {}

MetricsFile& MetricsFile::operator=(MetricsFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(role_, other.role_);
  std::swap(rank_, other.rank_);
  std::swap(fd_, other.fd_);
  return *this;
}

MetricsFile::~MetricsFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<> MetricsFile::append(const MetricsRecord& record) {
  if (fd_ < 0) return {};
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  nlohmann::ordered_json json = {
      {"time", now.count()}, {"role", role_}, {"rank", rank_}, {"epoch", nullptr}, {"step", record.step}};
  if (record.epoch) json["epoch"] = *record.epoch;
  for (const auto& [name, value] : record.values) json[name] = value;
  const std::string line = json_text(json) + "\n";
  if (::write(fd_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    return fail(Code::kData, "cannot write '{}': {}", path_, std::strerror(errno));
  }
  return {};
}

}  // namespace dtrain::train
