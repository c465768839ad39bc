// The stages of reading an image. One of them may limit how fast a worker trains. The numeric values are part of the
// protocol.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace dtrain::job {

enum class DataStage : uint32_t { kNone = 0, kRead = 1, kHeader = 2, kDecode = 3, kColor = 4, kRows = 5 };

struct DataStageName {
  const char *key, *activity;  // key: the name in files; activity: the text for people
};
inline constexpr std::array<DataStageName, 6> kDataStageNames = {{{"none", "reading data"},
                                                                  {"read", "reading files"},
                                                                  {"header", "reading headers"},
                                                                  {"decode", "decoding"},
                                                                  {"color", "changing colors"},
                                                                  {"rows", "resizing"}}};
constexpr const DataStageName& name_of(DataStage stage) {
  return kDataStageNames[static_cast<size_t>(stage)];
}
// Converts a number that another process sent; a newer version may send unknown numbers.
constexpr DataStage data_stage(double number) {
  return number >= 0 && number < static_cast<double>(kDataStageNames.size()) ? static_cast<DataStage>(number)
                                                                             : DataStage::kNone;
}

}  // namespace dtrain::job
