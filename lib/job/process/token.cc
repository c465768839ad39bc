#include "job/process/token.h"

#include <fmt/core.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "base/file.h"
#include "base/printable.h"
#include "job/flags/flags.h"

namespace dtrain::job {

std::string make_token() {
  std::array<unsigned char, 16> bits{};
  const ssize_t got =
      getrandom(bits.data(), bits.size(), 0);  // returns all 16 bytes once the kernel has gathered its entropy
  DT_CHECK(got == static_cast<ssize_t>(bits.size()), "getrandom gave {} of {} bytes", got, bits.size());
  std::string token;
  for (const unsigned char byte : bits) token += fmt::format("{:02x}", byte);
  return token;
}

namespace {

constexpr size_t kTokenMax = 1024;

// A token is sent as the value of a header, which can hold only printable ASCII. Messages must not show the token.
Result<std::string> checked(std::string token, const std::string& from) {
  if (token.size() > kTokenMax) {
    return fail(Code::kUsage, "{}: the token is longer than {} characters", from, kTokenMax);
  }
  const auto is_printable = [](char c) { return c >= 0x20 && c < 0x7f; };
  const auto bad = std::ranges::find_if_not(token, is_printable);
  if (bad == token.end()) return token;
  return fail(Code::kUsage, "{}: byte {} of the token is not a printable ASCII character; use letters and digits", from,
              bad - token.begin() + 1);
}

}  // namespace

Result<std::string> token_of(const LaunchFlags& flags) {
  if (flags.token_file.empty()) return checked(flags.token, "DTRAIN_TOKEN");
  DT_TRY(std::string token, read_file(flags.token_file), "reading --token-file");
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r' || token.back() == ' ')) token.pop_back();
  if (token.empty()) return fail(Code::kUsage, "--token-file {}: the file is empty", flags.token_file);
  return checked(std::move(token), fmt::format("--token-file {}", flags.token_file));
}

std::string token_file_note(const std::string& path) {
  struct stat status {};
  if (path.empty() || ::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  constexpr mode_t kOthers = S_IRGRP | S_IROTH;
  if ((status.st_mode & kOthers) == 0) return {};
  return fmt::format(
      "--token-file {0}: other users of this host can read the file, and could join the job with it: chmod 600 {0}",
      shell_word(path));
}

bool same_token(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); i++) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

bool is_loopback(std::string_view address) {
  if (address.starts_with("unix:")) return true;
  if (address.starts_with("[")) {
    address = address.substr(1, address.find(']') - 1);
  } else if (address.find(':') == address.rfind(':')) {
    address = address.substr(0, address.find(':'));
  }
  if (address == "localhost" || address == "::1") return true;
  // Only digits and dots count, because a host may be named 127.example.org.
  return address.starts_with("127.") && address.find_first_not_of("0123456789.") == std::string_view::npos;
}

namespace {

constexpr const char* kWays =
    "Give every process of the job the same token with --token-file FILE or the environment variable DTRAIN_TOKEN, or "
    "allow jobs without a token with --insecure";

bool needs_token(std::string_view token, bool insecure, std::string_view address) {
  return token.empty() && !insecure && !is_loopback(address);
}

}  // namespace

Result<> check_token_policy(std::string_view token, bool insecure, std::string_view address) {
  if (!needs_token(token, insecure, address)) return {};
  return fail(Code::kDenied, "listening on '{}', which is not a loopback address, needs a token. {}", address, kWays);
}

Result<> check_token_to_join(std::string_view token, bool insecure, std::string_view address) {
  if (!needs_token(token, insecure, address)) return {};
  return fail(Code::kDenied, "joining the job at '{}', which is not a loopback address, needs a token. {}", address,
              kWays);
}

}  // namespace dtrain::job
