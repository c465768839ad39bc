// The results of gpu-check, as one JSON file and one table. Both are rewritten after each part, so they are there
// however a run ends. The next run on the same device and commit reads them and continues.
//
//   {"format": 1, "commit", "device": {...}, "stages": {"ops": {"limit_s", "seconds", "not_done": [...],
//     "parts": [{"name", "status", "seconds", "text", "date", ...numbers}]}}}
//
// The status of a part: passed, failed, missing (the machine lacks what it needs), running, or killed (its process was
// ended from outside, by a time limit).
#pragma once

#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "machine.h"

namespace dtrain::gpu {

using Json = nlohmann::ordered_json;

// A part whose process ended before it did is run once more, because it may not be to blame.
inline constexpr int kAttempts = 2;

struct Identity {
  Facts device;
  std::string driver;  // "580.159.04": the driver's own version, which CUDA does not report
  std::string commit;
};

// "gpu-nvidia-h200-0123456789ab": the device and the first 12 digits of the commit, followed by "-changed" if the
// sources differed from the commit (scripts/gpu-check says so in `commit`).
std::string report_name(const Identity& identity);

// Thread-safe.
class Report {
 public:
  // Reads NAME.json from the first directory that has one for this device, driver and commit. Writes NAME.json and
  // NAME.txt to all directories and creates missing ones. A file of this name that is not a report, or is that of
  // another driver or library, is renamed to NAME.until-DATE.json. Code::kData: a directory cannot be written to.
  static Result<Report> open(std::vector<std::string> directories, const Identity& identity);
  Report(Report&& other) noexcept;

  // The status of a part; "" if it was never begun.
  [[nodiscard]] std::string status(const std::string& stage, const std::string& part) const;
  // How often a part was begun that never ended, because it ended the program or was killed. 0 for other parts.
  [[nodiscard]] int broken_off(const std::string& stage, const std::string& part) const;
  // The parts that must not be begun again.
  [[nodiscard]] std::vector<std::string> ended(const std::string& stage) const;
  // True if no part failed and none was left out.
  [[nodiscard]] bool all_passed(const std::string& stage) const;

  Result<> begin(const std::string& stage, const std::string& part);
  // `numbers` is an object whose members are added to the part.
  Result<> end(const std::string& stage, const std::string& part, const std::string& status, double seconds,
               const std::string& text, const Json& numbers = Json::object());
  // Adds members to a part that has ended.
  Result<> add(const std::string& stage, const std::string& part, const Json& members);
  // Records the running parts as killed. For the program that has ended their process.
  Result<> kill_running(const std::string& stage, const std::string& why);
  Result<> end_stage(const std::string& stage, double seconds, double limit_s,
                     const std::vector<std::string>& not_done);
  Result<> forget(const std::string& stage);

  [[nodiscard]] std::string table() const;
  [[nodiscard]] Json json() const;
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  Report(std::vector<std::string> directories, std::string name, Json content);
  Json* part_of(const std::string& stage, const std::string& part);
  const Json* find(const std::string& stage, const std::string& part) const;
  Result<> save() const;

  mutable std::mutex mutex_;
  std::vector<std::string> directories_;
  std::string name_;
  Json content_;
};

// Merges the reports in a directory, for example from other machines, into those in `into`, and returns their names. A
// part that only one of the two has is taken over; of two, the one that ended, or the newer one. Reports of different
// drivers, libraries or devices are not merged: the new one is put beside the old one as NAME.DIGITS.json.
Result<std::vector<std::string>> merge_reports(const std::string& from, const std::string& into);

// A report's content in readable form.
std::string table_of(const Json& report);

}  // namespace dtrain::gpu
