// What gpu-check found, as one JSON file and one table. Written anew after each part, so that whatever ends a run, what
// it found is there; the next run on the same device and commit reads it and goes on.
//
//   {"format": 1, "commit", "device": {...}, "stages": {"ops": {"limit_s", "seconds", "not_done": [...],
//     "parts": [{"name", "status", "seconds", "text", "date", ...numbers}]}}}
//
// A part's status: passed, failed, missing (what it needs is not on the machine), running while it does, or killed (its
// process was ended from outside, by a limit of time).
#pragma once

#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "machine.h"

namespace dtrain::gpu {

using Json = nlohmann::ordered_json;

// A part whose process ended before it did is begun once more, in case it was not to blame.
inline constexpr int kAttempts = 2;

struct Identity {
  Facts device;
  std::string driver;  // "580.159.04": the driver's own version, which CUDA does not tell
  std::string commit;
};

// "gpu-nvidia-h200-0123456789ab": the device and the commit's first 12 digits; "-changed" behind them where the sources
// were not the commit's (scripts/gpu-check says so in the commit).
std::string report_name(const Identity& identity);

// Any thread may call it.
class Report {
 public:
  // Reads NAME.json of the first folder that has it and is of this device, driver and commit; writes NAME.json and
  // NAME.txt in all of them, which it makes. A file of this name that is no report, or of another driver or library, is
  // set aside: renamed to NAME.until-DATE.json. Code::kData: a folder in which nothing can be written.
  static Result<Report> open(std::vector<std::string> folders, const Identity& identity);
  Report(Report&& other) noexcept;

  // How a part stands: "" if it was never begun.
  [[nodiscard]] std::string status(const std::string& stage, const std::string& part) const;
  // A part that was begun and never ended took the program with it, or was killed: how often it was begun.
  [[nodiscard]] int broken_off(const std::string& stage, const std::string& part) const;
  // The parts that are not to be begun again.
  [[nodiscard]] std::vector<std::string> ended(const std::string& stage) const;
  // No part failed, none was left out.
  [[nodiscard]] bool all_passed(const std::string& stage) const;

  Result<> begin(const std::string& stage, const std::string& part);
  // `numbers`: an object whose members are put into the part's.
  Result<> end(const std::string& stage, const std::string& part, const std::string& status, double seconds,
               const std::string& text, const Json& numbers = Json::object());
  // What still runs was killed, with its process: for whoever ended that.
  Result<> kill_running(const std::string& stage, const std::string& why);
  Result<> end_stage(const std::string& stage, double seconds, double limit_s,
                     const std::vector<std::string>& not_done);
  Result<> forget(const std::string& stage);

  [[nodiscard]] std::string table() const;
  [[nodiscard]] Json json() const;
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  Report(std::vector<std::string> folders, std::string name, Json content);
  Json* part_of(const std::string& stage, const std::string& part);
  const Json* find(const std::string& stage, const std::string& part) const;
  Result<> save() const;

  mutable std::mutex mutex_;
  std::vector<std::string> folders_;
  std::string name_;
  Json content_;
};

// The readable form of a report's content.
std::string table_of(const Json& report);

}  // namespace dtrain::gpu
