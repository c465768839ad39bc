// What the fuzzers feed with bytes. Each function must return for all bytes, without a crash and without using much
// memory; it throws CheckFailed if a property below does not hold. Each returns whether the bytes were what they should be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dtrain::fuzz {

// A symbol file, read and given its shapes as `--network FILE` does. A network that is read is written, and that file is
// read again as the same network.
bool read_symbol_bytes(std::string_view bytes);

// A .params file. Arrays that are read are written, and those bytes are read as the same arrays.
bool read_params_bytes(std::string_view bytes);

// A fuzzer's input: "symbol" or "params".
struct Target {
  const char* name;
  bool (*read)(std::string_view bytes);
  // Small valid inputs, which a fuzzer starts from.
  std::vector<std::string> (*seeds)();
};
const std::vector<Target>& targets();

std::vector<std::string> symbol_seeds();
std::vector<std::string> params_seeds();

}  // namespace dtrain::fuzz
