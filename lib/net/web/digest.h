// Checksums of untrusted files, computed by OpenSSL.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace dtrain::net {

enum class DigestKind { kMd5, kSha256 };

class Digester {
 public:
  explicit Digester(DigestKind kind);
  ~Digester();
  Digester(const Digester&) = delete;
  Digester& operator=(const Digester&) = delete;

  void add(std::span<const std::byte> bytes);
  // The checksum in lower-case hexadecimal. To be called once, at the end.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dtrain::net
