// The end of every message that reports missing training data.
#pragma once

#include <string_view>

namespace dtrain {

inline constexpr std::string_view kWaysToGetData =
    "'dtrain data get mnist' downloads MNIST into data/mnist; without a network connection, use the synthetic data "
    "that scripts/quickstart writes to build/quickstart-data, or make them with 'dtrain data synth --out "
    "build/quickstart-data'";
// The part of kWaysToGetData for a user who has tried to download.
inline constexpr std::string_view kWithoutNetwork = kWaysToGetData.substr(kWaysToGetData.find("without a network"));

}  // namespace dtrain
