// The descriptions for people of the phases of the metric phase_s.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace dtrain::observe {

struct PhaseWords {
  std::string_view name;   // the label in the metric
  std::string_view words;  // the description on the live page and in reports
  bool is_wait = false;    // the worker waits for another process
};

inline constexpr std::string_view kOtherPhase = "other";

// Sorted in the order in which a step goes through the phases.
inline constexpr std::array kPhaseWords = {PhaseWords{"data_wait", "waiting for data", true},
                                           PhaseWords{"forward", "forward"},
                                           PhaseWords{"backward", "backward"},
                                           PhaseWords{"push", "push"},
                                           PhaseWords{"pull_wait", "waiting for weights", true},
                                           PhaseWords{"update", "update"},
                                           PhaseWords{"validation", "validation"},
                                           PhaseWords{"checkpoint", "checkpoint"},
                                           PhaseWords{kOtherPhase, "other"}};

// The description of a phase; the name itself if it is not listed, as in a run of another version.
inline std::string phase_words(const std::string& name) {
  for (const PhaseWords& phase : kPhaseWords) {
    if (name == phase.name) return std::string(phase.words);
  }
  return name;
}

}  // namespace dtrain::observe
