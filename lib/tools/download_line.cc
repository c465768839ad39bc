#include "tools/download_line.h"

#include <cmath>

namespace dtrain::tools {

std::string download_text(const std::string& name, int64_t begin, int64_t have, int64_t total, double seconds) {
  constexpr double kMega = 1e6;
  const auto mega = [](int64_t bytes) { return static_cast<double>(bytes) / kMega; };
  const double speed = seconds > 0 ? mega(have - begin) / seconds : 0;
  if (total <= 0) return fmt::format("{}  {:.1f} MB  {:.1f} MB/s", name, mega(have), speed);
  std::string text =
      fmt::format("{}  {:.0f} %  {:.1f} of {:.1f} MB  {:.1f} MB/s", name,
                  100.0 * static_cast<double>(have) / static_cast<double>(total), mega(have), mega(total), speed);
  if (speed <= 0) return text;
  const auto left = static_cast<int64_t>(std::ceil(mega(total - have) / speed));
  return text + fmt::format("  ETA {}m{:02}s", left / 60, left % 60);
}

void DownloadLine::show(int64_t have, int64_t total) {
  constexpr std::chrono::milliseconds kEvery{200};
  const Clock::time_point now = Clock::now();
  if (begin_ < 0) begin_ = have;
  if (now - shown_ < kEvery || have == begin_) return;
  shown_ = now;
  is_shown_ = true;
  log_.live(download_text(name_, begin_, have, total, std::chrono::duration<double>(now - start_).count()));
}

}  // namespace dtrain::tools
