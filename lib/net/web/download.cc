#include "net/web/download.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "base/unique_fd.h"
#include "net/web/web_module.h"

namespace dtrain::net {
namespace {

using Curl = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;

// The output file. If writing to it fails, the attempt and the download end.
class PartFile {
 public:
  static Result<PartFile> open(const std::string& path) {
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    if (!fd.open()) return fail(Code::kData, "{}: {}", path, std::strerror(errno));
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      return fail(Code::kUsage, "{}: another process is downloading this file", path);
    }
    const off_t have = ::lseek(fd.get(), 0, SEEK_END);  // the offset is 0 for a device
    if (have < 0) return fail(Code::kData, "{}: {}", path, std::strerror(errno));
    return PartFile(path, std::move(fd), have);
  }

  [[nodiscard]] int64_t have() const { return have_; }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

  bool write(const char* bytes, size_t size) {
    while (size > 0) {
      const ssize_t wrote = ::write(fd_.get(), bytes, size);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return set_error();
      bytes += wrote;
      size -= static_cast<size_t>(wrote);
      have_ += wrote;
    }
    return true;
  }
  // Removes the file if it is empty, because an empty file does not help a later download.
  void remove_if_empty() const {
    std::error_code ignored;
    if (have_ == 0 && std::filesystem::is_regular_file(path_, ignored)) std::filesystem::remove(path_, ignored);
  }
  Result<> start_anew() {
    if (::ftruncate(fd_.get(), 0) == 0 && ::lseek(fd_.get(), 0, SEEK_SET) == 0) {
      have_ = 0;
      return {};
    }
    return fail(Code::kData, "{}: {}", path_, std::strerror(errno));
  }
  Result<> sync() {
    if (::fsync(fd_.get()) == 0 || errno == EINVAL) return {};
    return fail(Code::kData, "{}: {}", path_, std::strerror(errno));
  }
  // Whether there is space for the whole file. Called before the first byte of a long download is awaited.
  bool has_space(int64_t total) {
    std::error_code ignored;
    const std::filesystem::space_info space =
        std::filesystem::space(std::filesystem::absolute(path_).parent_path(), ignored);
    const int64_t missing = total - have_;
    if (ignored || missing <= 0 || static_cast<uint64_t>(missing) <= space.available) return true;
    constexpr double kMega = 1e6;
    error_ = Error{Code::kData,
                   fmt::format("{}: the file needs {:.0f} MB more, but only {:.0f} MB are free", path_,
                               static_cast<double>(missing) / kMega, static_cast<double>(space.available) / kMega),
                   {}};
    return false;
  }

 private:
  PartFile(std::string path, UniqueFd fd, int64_t have) : path_(std::move(path)), fd_(std::move(fd)), have_(have) {}
  bool set_error() {
    error_ =
        Error{Code::kData,
              fmt::format("{}: {} after {} bytes; these bytes are kept, and the same command continues the download",
                          path_, std::strerror(errno), have_),
              {}};
    return false;
  }

  std::string path_;
  UniqueFd fd_;
  int64_t have_ = 0;
  std::optional<Error> error_;
};

// The state of one attempt, which libcurl's callbacks use.
struct Attempt {
  const DownloadOptions& options;
  PartFile& target;
  int64_t begin;  // offset in the file at which the attempt began
  bool is_checked = false;
};

bool stopped(const DownloadOptions& options) {
  return options.stop != nullptr && *options.stop;
}

size_t take_bytes(const char* bytes, size_t size, size_t count, void* attempt) {
  return static_cast<Attempt*>(attempt)->target.write(bytes, size * count) ? size * count : 0;
}

int take_progress(void* attempt_of, curl_off_t total, curl_off_t, curl_off_t, curl_off_t) {
  auto& attempt = *static_cast<Attempt*>(attempt_of);
  const int64_t all = total > 0 ? attempt.begin + total : 0;
  if (all > 0 && !std::exchange(attempt.is_checked, true) && !attempt.target.has_space(all)) return 1;
  if (attempt.options.progress) attempt.options.progress(attempt.target.have(), all);
  return stopped(attempt.options) ? 1 : 0;
}

// A function of its own, because libcurl's options are macros over a variadic function.
void set_download_options(CURL* curl, Attempt& attempt, char* error) {
  curl_easy_setopt(curl, CURLOPT_URL, attempt.options.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https,file");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "dtrain");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 30L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(attempt.options.stall_max.count()));
  curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(attempt.begin));
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_bytes);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &attempt);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, take_progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &attempt);
}

enum class Outcome { kDone, kAgain, kAnew, kFailed };
struct Verdict {
  Outcome outcome = Outcome::kDone;
  Error error = {};  // set only if the state is not kDone
};

bool may_pass(CURLcode code, long status) {
  switch (code) {
    case CURLE_HTTP_RETURNED_ERROR: return status == 408 || status == 429 || status >= 500;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM: return true;
    default: return false;
  }
}

bool is_absent(CURLcode code, long status) {
  return status == 404 || status == 410 || code == CURLE_FILE_COULDNT_READ_FILE;
}

Verdict judge(const DownloadOptions& options, const PartFile& target, CURLcode code, long status, const char* reason) {
  constexpr long kRangeNotSatisfiable = 416;
  if (code == CURLE_OK) return {};
  if (target.error()) return {Outcome::kFailed, *target.error()};
  if (stopped(options)) {
    return {
        Outcome::kFailed,
        {Code::kPreempted,
         fmt::format("{}: stopped after {} bytes; the same command continues the download", options.url, target.have()),
         {}}};
  }
  // The server has no bytes after those already received. The checksum will show whether these are correct.
  if (status == kRangeNotSatisfiable || code == CURLE_BAD_DOWNLOAD_RESUME) return {};
  const Code kind = is_absent(code, status) ? Code::kNotFound : Code::kUnavailable;
  const Error error{
      kind, fmt::format("{}: {}", options.url, reason[0] != '\0' ? reason : curl_easy_strerror(code)), {}};
  if (code == CURLE_RANGE_ERROR) return {Outcome::kAnew, error};
  return {may_pass(code, status) ? Outcome::kAgain : Outcome::kFailed, error};
}

Verdict try_once(const DownloadOptions& options, PartFile& target) {
  const Curl curl(curl_easy_init(), curl_easy_cleanup);
  if (curl == nullptr) return {Outcome::kFailed, {Code::kInternal, "libcurl cannot be used", {}}};
  Attempt attempt{.options = options, .target = target, .begin = target.have()};
  char reason[CURL_ERROR_SIZE] = "";
  set_download_options(curl.get(), attempt, reason);
  const CURLcode code = curl_easy_perform(curl.get());
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  return judge(options, target, code, status, reason);
}

// Waits for `length`, or until the download is stopped.
void pause(const DownloadOptions& options, std::chrono::milliseconds length) {
  constexpr std::chrono::milliseconds kLook{50};
  const auto end = std::chrono::steady_clock::now() + length;
  while (!stopped(options) && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(kLook);
}

}  // namespace

namespace {

Result<Downloaded> download_to(PartFile& target, const DownloadOptions& options, const Log& log) {
  bool was_resumed = target.have() > 0;
  std::chrono::milliseconds wait = options.first_pause;
  for (int failed = 0;;) {
    const int64_t before = target.have();
    const Verdict ended = try_once(options, target);
    if (ended.outcome == Outcome::kDone) break;
    if (ended.outcome == Outcome::kFailed) return tl::unexpected(ended.error);
    if (ended.outcome == Outcome::kAnew) {
      if (before == 0) return tl::unexpected(ended.error);
      log.info("{}: the server cannot send a part of the file; the download starts again from the beginning",
               options.url);
      DT_TRY_VOID(target.start_anew());
      was_resumed = false;
      continue;
    }
    if (target.have() > before) {
      failed = 0;
      wait = options.first_pause;
    }
    if (++failed >= options.attempts) {
      return tl::unexpected(Error(ended.error).with(fmt::format("downloading (failed {} times)", failed)));
    }
    log.warn("{}; {} bytes have arrived; trying again in {:.1f} s", ended.error.message, target.have(),
             std::chrono::duration<double>(wait).count());
    pause(options, wait);
    wait *= 2;
  }
  DT_TRY_VOID(target.sync());
  return Downloaded{.bytes = target.have(), .was_resumed = was_resumed};
}

}  // namespace

Result<Downloaded> download_with_curl(const DownloadOptions& options, const Log& log) {
  DT_TRY(PartFile target, PartFile::open(options.path));
  Result<Downloaded> downloaded = download_to(target, options, log);
  if (!downloaded) target.remove_if_empty();
  return downloaded;
}

}  // namespace dtrain::net
