// Report::table: one block per stage. ops has hundreds of parts, so it shows one line per group of parts (the text
// before the colon of their names), then the parts that failed.
#include <algorithm>
#include <map>

#include "report.h"

namespace dtrain::gpu {

namespace {

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "?";
}

double number_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

std::string head(const Json& report) {
  const Json& device = report["device"];
  return fmt::format(
      "gpu-check on {} (sm {}, {} processors, {:.0f} GiB), {}, commit {}\n"
      "driver {} (CUDA {}), CUDA runtime {}, cuDNN {}, NCCL {}\n",
      text_of(device, "name"), text_of(device, "capability"), number_of(device, "processors"),
      number_of(device, "memory_bytes") / (1 << 30), text_of(report, "date"), text_of(report, "commit"),
      text_of(device, "driver"), text_of(device, "cuda_driver"), text_of(device, "cuda_runtime"),
      text_of(device, "cudnn"), text_of(device, "nccl"));
}

struct Counts {
  size_t all = 0, passed = 0, failed = 0, missing = 0, killed = 0;
  double worst = 0;  // error / tolerance

  void add(const Json& part) {
    const std::string status = text_of(part, "status");
    all++;
    passed += status == "passed" ? 1 : 0;
    failed += status == "failed" ? 1 : 0;
    missing += status == "missing" ? 1 : 0;
    killed += status == "killed" ? 1 : 0;
    const double tolerance = number_of(part, "tolerance");
    if (tolerance > 0) worst = std::max(worst, number_of(part, "error") / tolerance);
  }
  [[nodiscard]] std::string text() const {
    std::string result = fmt::format("{} of {} passed", passed, all);
    if (failed > 0) result += fmt::format(", {} failed", failed);
    if (missing > 0) result += fmt::format(", {} missing", missing);
    if (killed > 0) result += fmt::format(", {} killed", killed);
    return result;
  }
};

std::string group_of(const std::string& part) {
  const size_t colon = part.find(": ");
  return colon == std::string::npos ? part : part.substr(0, colon);
}

// The outcome of a failed part in a process with CUDA_LAUNCH_BLOCKING=1.
std::string blocking_line(const Json& part) {
  const auto again = part.find("blocking");
  if (again == part.end() || !again->is_object()) return "";
  return fmt::format("          with CUDA_LAUNCH_BLOCKING=1: {}  {}\n", text_of(*again, "status"),
                     text_of(*again, "text"));
}

std::string line_of(const Json& part) {
  return fmt::format("  {:7} {:45} {:6.1f} s  {}\n", text_of(part, "status"), text_of(part, "name"),
                     number_of(part, "seconds"), part.value("text", "")) +
         blocking_line(part) + part.value("table", "");
}

// The groups, and each part that did not pass.
std::string grouped(const Json& parts) {
  std::vector<std::string> order;
  std::map<std::string, Counts> groups;
  for (const Json& part : parts) {
    const std::string group = group_of(text_of(part, "name"));
    if (!groups.contains(group)) order.push_back(group);
    groups[group].add(part);
  }
  std::string text;
  for (const std::string& group : order) {
    const Counts& counts = groups[group];
    text += fmt::format("  {:24} {}", group, counts.text());
    if (counts.worst > 0) text += fmt::format("; worst error {:.0f} % of its tolerance", 100 * counts.worst);
    text += "\n";
  }
  for (const Json& part : parts) {
    if (text_of(part, "status") != "passed") text += line_of(part);
  }
  return text;
}

std::string stage_text(const std::string& name, const Json& stage) {
  const Json& parts = stage["parts"];
  Counts counts;
  for (const Json& part : parts) counts.add(part);
  std::string text = fmt::format("\n{}: {}, {:.0f} s\n", name, counts.text(), number_of(stage, "seconds"));
  constexpr size_t kManyParts = 100;
  if (parts.size() > kManyParts) {
    text += grouped(parts);
  } else {
    for (const Json& part : parts) text += line_of(part);
  }
  const Json left = stage.value("not_done", Json::array());
  if (!left.empty())
    text += fmt::format("  not done: {} parts, from '{}' on\n", left.size(), left[0].get<std::string>());
  return text;
}

}  // namespace

std::string table_of(const Json& report) {
  std::string text = head(report);
  for (const auto& [name, stage] : report["stages"].items()) text += stage_text(name, stage);
  return text;
}

}  // namespace dtrain::gpu
