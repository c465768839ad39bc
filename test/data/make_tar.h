// Small tar archives for tests.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace dtrain::test {

// A header with this text in the field of the size.
inline std::string tar_header(const std::string& name, const std::string& size, char type = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(124, size.size(), size);
  header[156] = type;
  header.replace(257, 6, std::string("ustar\0", 6));
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<uint8_t>(c);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  header.replace(148, 7, std::string(text, 7));
  return header;
}

inline std::string tar_member(const std::string& name, const std::string& content, char type = '0') {
  char size[12];
  std::snprintf(size, sizeof size, "%011o", static_cast<unsigned>(content.size()));
  return tar_header(name, size, type) + content + std::string((512 - content.size() % 512) % 512, '\0');
}

inline std::string tar_end() {
  return std::string(1024, '\0');
}

}  // namespace dtrain::test
