#include "job/process/people.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/console.h"
#include "base/duration_text.h"
#include "base/words.h"

namespace dtrain::job {
namespace {

// The lines of MXNet's scripts, and those about how a process was set up, begin with these words.
constexpr std::array<std::string_view, 11> kForFiles = {
    "Epoch[",
    "Update[",
    "Saved checkpoint to ",
    "Saved optimizer state to ",
    "Adjust learning rate to ",
    "Resizing training data to ",
    "start with arguments ",
    "weights are updated ",
    "images go to the devices as ",
    "join role=",
    "the scheduler is connected to ",
};

constexpr std::string_view kEpochBegin = "epoch ", kLossPart = "loss ";

std::string time_text(double seconds) {
  constexpr double kLong = 100;
  if (seconds < kLong) return fmt::format("{:.1f} s", seconds);
  return long_duration_text(std::chrono::duration<double>(seconds));
}

}  // namespace

bool is_screen_for_people(bool log_format_is_given) {
  return Console::is_terminal() && !log_format_is_given;
}

bool begins_with_epoch(std::string_view text, std::string_view next_part) {
  if (!text.starts_with(kEpochBegin)) return false;
  const size_t end = text.find_first_not_of("0123456789/", kEpochBegin.size());
  if (end == std::string_view::npos || end == kEpochBegin.size()) return false;
  text.remove_prefix(end);
  return text.starts_with(kBetweenParts) && text.substr(kBetweenParts.size()).starts_with(next_part);
}

std::optional<Fit> fit_for_people(std::string_view text) {
  if (std::ranges::any_of(kForFiles, [&](std::string_view begin) { return text.starts_with(begin); })) {
    return std::nullopt;
  }
  return begins_with_epoch(text, kLossPart) ? Fit::kParts : Fit::kWords;
}

std::string loss_text(double loss) {
  return fmt::format("{:.3f}", loss);
}

std::string accuracy_text(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

std::string epoch_line(const EpochSummary& end) {
  std::string text = fmt::format("{}{}/{}{}{}{}  accuracy {}", kEpochBegin, end.epoch, end.epochs, kBetweenParts,
                                 kLossPart, loss_text(end.loss), accuracy_text(end.accuracy));
  if (end.validation) {
    text += fmt::format("  validation {}{}  validation loss {}", accuracy_text(end.validation->accuracy),
                        end.validation->is_best ? " (best)" : "", loss_text(end.validation->loss));
  }
  constexpr int kRateDigits = 8;  // plain decimals, because some log parsers do not accept an exponent
  return text + fmt::format("  rate {}  {}", decimal_text(end.rate, kRateDigits), time_text(end.seconds));
}

}  // namespace dtrain::job
