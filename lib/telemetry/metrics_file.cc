#include "telemetry/metrics_file.h"

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/file.h"
#include "base/json.h"
#include "base/write_all.h"

namespace dtrain::telemetry {

Result<std::unique_ptr<MetricsFile>> MetricsFile::open(const std::string& path, std::string role, uint32_t rank) {
  DT_TRY(UniqueFd file, open_for_lines(path, O_APPEND));
  return std::unique_ptr<MetricsFile>(new MetricsFile(path, std::move(role), rank, std::move(file)));
}

Result<> MetricsFile::write(const Record& record) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  nlohmann::ordered_json json = {
      {"time", now.count()}, {"role", role_}, {"rank", rank_}, {"epoch", nullptr}, {"step", record.step}};
  if (record.epoch) json["epoch"] = *record.epoch;
  for (const Value& value : record.values) {
    const std::string name(info(value.metric).name);
    (value.label.empty() ? json[name] : json[name][value.label]) = value.value;
  }
  if (write_all(file_.get(), json_text(json) + "\n")) return {};
  return fail(Code::kData, "cannot write '{}': {}", path_, std::strerror(errno));
}

}  // namespace dtrain::telemetry
