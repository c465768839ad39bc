#include "report.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "base/file.h"

namespace dtrain::gpu {

namespace {

constexpr int kFormat = 1;

std::string slug(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!result.empty() && result.back() != '-') {
      result += '-';
    }
  }
  return result;
}

std::string now_utc() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm fields{};
  gmtime_r(&now, &fields);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &fields);
  return text;
}

Json device_json(const Identity& identity) {
  const Facts& facts = identity.device;
  return {{"name", facts.name},
          {"capability", facts.capability},
          {"processors", facts.processors},
          {"memory_bytes", facts.memory_bytes},
          {"driver", identity.driver},
          {"cuda_driver", facts.cuda_driver},
          {"cuda_runtime", facts.cuda_runtime},
          {"cudnn", facts.cudnn},
          {"nccl", facts.nccl},
          {"properties", Json::parse(facts.properties, nullptr, false)}};
}

Json empty_report(const Identity& identity) {
  return {{"format", kFormat},
          {"commit", identity.commit},
          {"date", now_utc()},
          {"device", device_json(identity)},
          {"stages", Json::object()}};
}

bool is_report(const Json& content) {
  if (!content.is_object() || content.value("format", 0) != kFormat || !content.contains("device")) return false;
  const auto stages = content.find("stages");
  if (stages == content.end() || !stages->is_object()) return false;
  return std::ranges::all_of(*stages, [](const Json& stage) {
    return stage.is_object() && stage.contains("parts") && stage["parts"].is_array() &&
           std::ranges::all_of(stage["parts"], [](const Json& part) {
             return part.is_object() && part.contains("name") && part["name"].is_string() && part.contains("status") &&
                    part["status"].is_string();
           });
  });
}

// Whether a run with this identity may continue the report. Another driver or library on the same device may give other
// results. The order of the keys does not matter.
bool is_of(const Json& content, const Identity& identity) {
  const nlohmann::json device = content["device"], here = device_json(identity);
  return device == here && content.value("commit", "") == identity.commit;
}

// Renames `stem`.json and .txt, so that this run can begin its own report: time on a device is too precious to end a
// run because of a file.
Result<> set_aside(const std::string& stem) {
  std::string now = now_utc();
  std::erase_if(now, [](char c) { return c == ':' || c == '-'; });
  std::string to = fmt::format("{}.until-{}", stem, now);
  for (int i = 2; std::filesystem::exists(to + ".json"); i++) to = fmt::format("{}.until-{}-{}", stem, now, i);
  for (const char* ending : {".json", ".txt"}) {
    std::error_code error;
    if (!std::filesystem::exists(stem + ending)) continue;
    std::filesystem::rename(stem + ending, to + ending, error);
    if (error)
      return fail(Code::kData, "{}{}: cannot be renamed to {}{}: {}", stem, ending, to, ending, error.message());
  }
  return {};
}

// The report of an earlier run with the same identity; null if there is none. Any other file of this name is set aside.
Result<Json> read_report(const std::string& stem, const Identity& identity) {
  const Result<std::string> text = read_file(stem + ".json");
  if (!text) return Json();
  Json content = Json::parse(*text, nullptr, false);
  if (is_report(content) && is_of(content, identity)) return content;
  DT_TRY_VOID(set_aside(stem));
  return Json();
}

// The rename makes the change atomic for readers. No fsync: there are hundreds of parts, and a machine that loses power
// loses the directory as well.
Result<> replace_file(const std::string& path, const std::string& content) {
  const std::string temporary = path + ".new";
  std::ofstream file(temporary, std::ios::binary);
  file << content;
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(temporary, path, error);
  if (!file || error) return fail(Code::kData, "{}: cannot be written", path);
  return {};
}

// The part was begun, and its process ended before it did.
bool is_broken_off(const Json& part) {
  return part["status"] == "running" || part["status"] == "killed";
}

}  // namespace

std::string report_name(const Identity& identity) {
  const bool changed = identity.commit.ends_with("-changed");
  return fmt::format("gpu-{}-{}{}", slug(identity.device.name), identity.commit.substr(0, 12),
                     changed ? "-changed" : "");
}

Report::Report(std::vector<std::string> directories, std::string name, Json content)
    : directories_(std::move(directories)), name_(std::move(name)), content_(std::move(content)) {}

Report::Report(Report&& other) noexcept
    : directories_(std::move(other.directories_)), name_(std::move(other.name_)), content_(std::move(other.content_)) {}

Result<Report> Report::open(std::vector<std::string> directories, const Identity& identity) {
  const std::string name = report_name(identity);
  Json content;
  for (const std::string& directory : directories) {
    DT_TRY_VOID(make_directories(directory));
    if (content.is_null()) {
      DT_TRY(content, read_report(directory + "/" + name, identity));
    }
  }
  if (content.is_null()) content = empty_report(identity);
  Report report(std::move(directories), name, std::move(content));
  DT_TRY_VOID(report.save());
  return report;
}

const Json* Report::find(const std::string& stage, const std::string& part) const {
  const auto found = content_["stages"].find(stage);
  if (found == content_["stages"].end()) return nullptr;
  for (const Json& known : (*found)["parts"]) {
    if (known["name"] == part) return &known;
  }
  return nullptr;
}

Json* Report::part_of(const std::string& stage, const std::string& part) {
  if (const Json* known = find(stage, part)) return const_cast<Json*>(known);
  Json& parts = content_["stages"][stage]["parts"];
  if (parts.is_null()) parts = Json::array();
  parts.push_back({{"name", part}, {"status", ""}});
  return &parts.back();
}

std::string Report::status(const std::string& stage, const std::string& part) const {
  const std::lock_guard lock(mutex_);
  const Json* known = find(stage, part);
  return known == nullptr ? "" : (*known)["status"].get<std::string>();
}

int Report::broken_off(const std::string& stage, const std::string& part) const {
  const std::lock_guard lock(mutex_);
  const Json* known = find(stage, part);
  return known == nullptr || !is_broken_off(*known) ? 0 : known->value("begun", 1);
}

std::vector<std::string> Report::ended(const std::string& stage) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  const auto found = content_["stages"].find(stage);
  if (found == content_["stages"].end()) return names;
  for (const Json& part : (*found)["parts"]) {
    const bool again = part["status"] == "" || (is_broken_off(part) && part.value("begun", 1) < kAttempts);
    if (!again) names.push_back(part["name"]);
  }
  return names;
}

bool Report::all_passed(const std::string& stage) const {
  const std::lock_guard lock(mutex_);
  const auto found = content_["stages"].find(stage);
  if (found == content_["stages"].end() || !found->value("not_done", Json::array()).empty()) return false;
  return std::ranges::all_of(
      (*found)["parts"], [](const Json& part) { return part["status"] == "passed" || part["status"] == "missing"; });
}

Result<> Report::begin(const std::string& stage, const std::string& part) {
  const std::lock_guard lock(mutex_);
  Json& entry = *part_of(stage, part);
  entry["begun"] = (is_broken_off(entry) ? entry.value("begun", 1) : 0) + 1;
  entry["status"] = "running";
  return save();
}

Result<> Report::end(const std::string& stage, const std::string& part, const std::string& status, double seconds,
                     const std::string& text, const Json& numbers) {
  const std::lock_guard lock(mutex_);
  Json& entry = *part_of(stage, part);
  const int begun = is_broken_off(entry) ? entry.value("begun", 1) : 0;
  entry = {{"name", part}, {"status", status}, {"seconds", std::round(seconds * 1000) / 1000}, {"date", now_utc()}};
  if (status == "killed") entry["begun"] = begun + 1;
  if (!text.empty()) entry["text"] = text;
  entry.update(numbers);
  return save();
}

Result<> Report::add(const std::string& stage, const std::string& part, const Json& members) {
  const std::lock_guard lock(mutex_);
  part_of(stage, part)->update(members);
  return save();
}

Result<> Report::kill_running(const std::string& stage, const std::string& why) {
  const std::lock_guard lock(mutex_);
  const auto found = content_["stages"].find(stage);
  if (found == content_["stages"].end()) return {};
  for (Json& part : (*found)["parts"]) {
    if (part["status"] != "running") continue;
    part["status"] = "killed";
    part["text"] = why;
    part["date"] = now_utc();
  }
  return save();
}

Result<> Report::end_stage(const std::string& stage, double seconds, double limit_s,
                           const std::vector<std::string>& not_done) {
  const std::lock_guard lock(mutex_);
  Json& entry = content_["stages"][stage];
  if (!entry.contains("parts")) entry["parts"] = Json::array();
  entry["seconds"] = std::round((entry.value("seconds", 0.0) + seconds) * 10) / 10;
  entry["limit_s"] = limit_s;
  entry["not_done"] = not_done;
  return save();
}

Result<> Report::forget(const std::string& stage) {
  const std::lock_guard lock(mutex_);
  content_["stages"].erase(stage);
  return save();
}

std::string Report::table() const {
  const std::lock_guard lock(mutex_);
  return table_of(content_);
}

Json Report::json() const {
  const std::lock_guard lock(mutex_);
  return content_;
}

Result<> Report::save() const {
  const std::string text = content_.dump(1) + "\n", table = table_of(content_);
  for (const std::string& directory : directories_) {
    DT_TRY_VOID(replace_file(directory + "/" + name_ + ".json", text));
    DT_TRY_VOID(replace_file(directory + "/" + name_ + ".txt", table));
  }
  return {};
}

namespace {

bool is_better(const Json& a, const Json& b) {
  const auto ended = [](const Json& part) { return part["status"] != "" && !is_broken_off(part); };
  if (ended(a) != ended(b)) return ended(a);
  return a.value("date", "") > b.value("date", "");
}

void merge_stage(const Json& from, Json& into) {
  for (const Json& part : from["parts"]) {
    const auto same = [&](const Json& known) { return known["name"] == part["name"]; };
    const auto found = std::ranges::find_if(into["parts"], same);
    if (found == into["parts"].end()) {
      into["parts"].push_back(part);
    } else if (is_better(part, *found)) {
      *found = part;
    }
  }
  Json not_done = Json::array();
  for (const Json& name : into.value("not_done", Json::array())) {
    const auto done = [&](const Json& part) { return part["name"] == name && part["status"] != ""; };
    if (std::ranges::none_of(into["parts"], done)) not_done.push_back(name);
  }
  into["not_done"] = not_done;
}

Json merged(const Json& from, Json into) {
  for (const auto& [name, stage] : from["stages"].items()) {
    if (into["stages"].contains(name)) {
      merge_stage(stage, into["stages"][name]);
    } else {
      into["stages"][name] = stage;
    }
  }
  return into;
}

Result<Json> report_in(const std::string& path) {
  DT_TRY(const std::string text, read_file(path));
  Json content = Json::parse(text, nullptr, false);
  if (!is_report(content)) return fail(Code::kData, "{}: not a report of gpu-check", path);
  return content;
}

// Merges one report and returns the name under which it is now.
Result<std::string> merge_report(const std::string& path, const std::string& into) {
  DT_TRY(const Json content, report_in(path));
  const std::string name = std::filesystem::path(path).stem();
  std::string stem = into + "/" + name;
  for (int i = 2; std::filesystem::exists(stem + ".json"); i++) {
    DT_TRY(Json known, report_in(stem + ".json"));
    // The order of the keys does not matter.
    if (nlohmann::json(known["device"]) == nlohmann::json(content["device"]) && known["commit"] == content["commit"]) {
      known = merged(content, std::move(known));
      DT_TRY_VOID(replace_file(stem + ".json", known.dump(1) + "\n"));
      DT_TRY_VOID(replace_file(stem + ".txt", gpu::table_of(known)));
      return std::filesystem::path(stem).filename();
    }
    stem = fmt::format("{}/{}.{}", into, name, i);
  }
  DT_TRY_VOID(replace_file(stem + ".json", content.dump(1) + "\n"));
  DT_TRY_VOID(replace_file(stem + ".txt", gpu::table_of(content)));
  return std::filesystem::path(stem).filename();
}

}  // namespace

Result<std::vector<std::string>> merge_reports(const std::string& from, const std::string& into) {
  std::vector<std::string> paths, names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(from, error)) {
    const std::string file = entry.path().filename();
    if (file.starts_with("gpu-") && file.ends_with(".json")) paths.push_back(entry.path());
  }
  if (paths.empty()) return fail(Code::kData, "{}: there are no reports (gpu-*.json) in this directory", from);
  std::ranges::sort(paths);
  DT_TRY_VOID(make_directories(into));
  for (const std::string& path : paths) {
    DT_TRY(names.emplace_back(), merge_report(path, into));
  }
  return names;
}

}  // namespace dtrain::gpu
