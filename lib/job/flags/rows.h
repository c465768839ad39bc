// The table of the training flags, and the flags that are refused by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/words.h"
#include "job/flags/flag_table.h"

namespace dtrain::job {

struct Flags;

using Row = FlagRow<Flags>;

std::vector<Row> launch_rows();
std::vector<Row> batch_rows();
std::vector<Row> scheme_rows();
std::vector<Row> wire_rows();
std::vector<Row> device_rows();
std::vector<Row> network_rows();
std::vector<Row> data_rows();
std::vector<Row> augment_rows();
std::vector<Row> optimizer_rows();
std::vector<Row> loop_rows();
// Flags of the programs that dtrain replaces that have no meaning here, and flags of later versions.
std::vector<RefusedFlag> refused_flags();

// Appends the value to a list, each time that the flag is given.
template <class Part>
Binding<Flags> word_of(Part Flags::*part, std::vector<std::string> Part::*member) {
  return {.set = [=](Flags& flags, std::string_view text) -> Result<> {
            if (text.empty()) return fail(Code::kUsage, "the value is empty");
            (flags.*part.*member).emplace_back(text);
            return {};
          },
          .get =
              [=](const Flags& flags) {
                const std::vector<std::string>& words = flags.*part.*member;
                return words.empty() ? "none" : joined(words, " ");
              }};
}

// A single edge means square color images: "224" is short for "3,224,224".
template <class Options>
Binding<Options> image_shape(Binding<Options> binding) {
  binding.set = [plain = binding.set](Options& options, std::string_view text) {
    const bool is_edge = !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
    return plain(options, is_edge ? fmt::format("3,{0},{0}", text) : std::string(text));
  };
  return binding;
}

// Limits that several flags share. The first one is the largest number of processes per role; ranks have 32 bits, but
// the scheduler keeps state for each process.
inline constexpr double kProcessesMax = 65536;
inline constexpr double kThreadsMax = 1024;
inline constexpr double kEpochsMax = 1e9, kStepsMax = 1e9;
inline constexpr double kExamplesMax = 1e12;  // largest number of records
inline constexpr double kBatchMax = 1 << 20, kClassesMax = 1e7, kLabelWidthMax = 1000, kLayersMax = 10000;
inline constexpr double kEdgeMax = 16384;      // largest edge of the images that a network takes, in pixels
inline constexpr double kImageEdgeMax = 8192;  // largest edge of the images that augmentation makes, in pixels
inline constexpr double kSecondsMax = 1e7;     // limit for times: 115 days
inline constexpr double kFactorMax = 1e6;      // limit for learning rates, and for factors of pixel values

// A part of the table with a heading of its own in --help.
struct Section {
  std::string subject;  // `dtrain --help SUBJECT` shows it
  std::string heading;
  std::vector<Row> (*rows)();
};
const std::vector<Section>& sections();

// The table of all training flags. Built once, never changed.
const FlagTable<Flags>& training_flags();

// At the beginning of a path, a placeholder for the value of --data-dir.
inline constexpr std::string_view kInDataDir = "{data-dir}/";

}  // namespace dtrain::job
