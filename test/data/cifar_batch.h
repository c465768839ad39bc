// CIFAR's batches for Python, without Python.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::test {

// `count` images, byte k of image i being i + k, and the labels with these keys, as Python pickles them: with
// protocol 2 and an array of numpy 1, or with protocol 4.
inline std::string cifar_batch(int count, const std::vector<std::string>& labels, bool is_newer = false) {
  const auto little = [](uint64_t value, size_t bytes) {
    std::string text;
    for (size_t i = 0; i < bytes; i++) text += static_cast<char>(value >> (8 * i));
    return text;
  };
  const auto word = [&](const std::string& text) {
    return std::string(1, is_newer ? '\x8c' : 'U') + little(text.size(), 1) + text;
  };
  const auto name = [&](const std::string& module, const std::string& of) {
    return is_newer ? word(module) + word(of) + "\x93" : "c" + module + "\n" + of + "\n";
  };
  std::string text = is_newer ? "\x80\x04}\x94(" : "\x80\x02}q\x01(";
  for (const std::string& key : labels) {
    text += word(key) + "](";
    const int limit = key == "labels" ? 10 : key == "coarse_labels" ? 20 : 100;
    for (int i = 0; i < count; i++) text += "K" + std::string(1, static_cast<char>(i % limit));
    text += "e";
  }
  std::string bytes;
  for (int i = 0; i < count; i++) {
    for (int k = 0; k < 3072; k++) bytes += static_cast<char>(i + k);
  }
  const std::string raw = (is_newer ? "B" : "T") + little(bytes.size(), 4) + bytes;
  const std::string type = name("numpy", "dtype") + word("u1") + "K" + std::string(1, '\0') + "K\x01\x87R(K\x03" +
                           word("|") + "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK" + std::string(1, '\0') + "tb";
  text += word("data") + name(is_newer ? "numpy._core.multiarray" : "numpy.core.multiarray", "_reconstruct") +
          name("numpy", "ndarray") + "K" + std::string(1, '\0') + "\x85" + word("b") + "\x87R(K\x01M" +
          little(static_cast<uint64_t>(count), 2) + "M" + little(3072, 2) + "\x86" + type + "\x89" + raw + "tb";
  return text + "u.";
}

}  // namespace dtrain::test
