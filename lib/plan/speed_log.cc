#include "plan/speed_log.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include "base/line_reader.h"
#include "base/log_prefix.h"
#include "base/median.h"
#include "observe/runs/log_line.h"

namespace dtrain::plan {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRanksMax = 65536;  // limits the memory, because a log may contain any rank

// One Speedometer line: the speed of a worker in a window of batches.
struct Window {
  int64_t rank = 0;
  std::string_view batches;  // text such as "Epoch[0] Batch [0-20]"
  std::string_view speed;    // text of the speed
};

std::optional<Window> window_in(std::string_view text) {
  const SplitLine line = split_log_line(text);
  const std::optional<observe::SpeedText> speed = observe::find_speed(line.text);
  if (!line.rank || !speed) return std::nullopt;  // for example, skips "Node[server 0]"
  return Window{*line.rank, speed->batches, speed->speed};
}

// The windows of one worker, in order.
struct Windows {
  // `batches` of the last window: MXNet 0.7 to 0.9 print one line for each metric, all with the same window
  std::string last;
  std::vector<double> speeds;
};

Result<double> speed_of(const Window& window) {
  double speed = 0;
  const char* const end = window.speed.data() + window.speed.size();
  const auto [stop, error] = std::from_chars(window.speed.data(), end, speed);
  if (error == std::errc() && stop == end && std::isfinite(speed) && speed > 0) return speed;
  return fail(Code::kData, "the speed of worker {} is '{}', but must be a number above 0", window.rank, window.speed);
}

using ByRank = std::map<int64_t, Windows>;

Result<> add_line(std::string_view line, ByRank& by_rank) {
  const std::optional<Window> window = window_in(line);
  if (!window || window->rank < 0 || window->rank >= kRanksMax) return {};
  Windows& windows = by_rank[window->rank];
  if (window->batches == windows.last) return {};
  windows.last = window->batches;
  DT_TRY(windows.speeds.emplace_back(), speed_of(*window));
  return {};
}

Result<> add_log(const std::string& path, ByRank& by_rank) {
  DT_TRY(LineReader lines, LineReader::open(path));
  for (;;) {
    DT_TRY(const std::optional<std::string_view> line, lines.next());
    if (!line) return {};
    const Result<> added = add_line(*line, by_rank);
    if (!added) return fail(Code::kData, "{}:{}: {}", path, lines.number(), added.error().message);
  }
}

Result<std::vector<double>> medians(const ByRank& by_rank, const std::string& name, int64_t workers) {
  if (by_rank.empty()) {
    return fail(Code::kData, "{}: the log contains no line 'Node[RANK] ... Speed: N samples/sec'", name);
  }
  const int64_t last = by_rank.rbegin()->first;
  if (workers == 0) workers = last + 1;
  if (last >= workers) {
    return fail(Code::kData, "{}: the log contains the speed of worker {}, but the job has only {} workers (-n)", name,
                last, workers);
  }
  std::vector<double> speeds;
  for (int64_t rank = 0; rank < workers; rank++) {
    const auto found = by_rank.find(rank);
    if (found == by_rank.end()) {
      return fail(Code::kData, "{}: the speed of worker {} of {} is missing", name, rank, workers);
    }
    const std::vector<double>& all = found->second.speeds;
    if (all.size() < 2) {
      return fail(Code::kData,
                  "{}: worker {} logged only one speed, which includes its warm-up: use the log of a longer run or of "
                  "one with a smaller --disp-batches",
                  name, rank);
    }
    speeds.push_back(median({all.begin() + 1, all.end()}));
  }
  return speeds;
}

}  // namespace

Result<std::vector<std::string>> logs_at(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> logs;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    const std::string file = entry.path().filename().string();
    if (file.starts_with("worker-") && file.ends_with(".log")) logs.push_back(entry.path().string());
  }
  if (logs.empty()) return fail(Code::kNotFound, "{}: the directory contains no logs of workers (worker-*.log)", path);
  std::sort(logs.begin(), logs.end());
  return logs;
}

Result<std::vector<double>> read_speeds(const std::string& path, int64_t workers) {
  DT_TRY(const std::vector<std::string> logs, logs_at(path));
  ByRank by_rank;
  for (const std::string& file : logs) {
    DT_TRY_VOID(add_log(file, by_rank));
  }
  return medians(by_rank, path, workers);
}

}  // namespace dtrain::plan
