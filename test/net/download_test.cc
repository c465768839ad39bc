// Downloads from a small HTTP server in a thread of the test.
#include "net/web/download.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "base/unique_fd.h"
#include "net/web/digest.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::net;
using Catch::Matchers::Contains;
using dtrain::test::must;

namespace {

struct ServerHabits {
  bool knows_ranges = true;
  int busy = 0;    // the first requests are answered with 503
  int breaks = 0;  // the next ones end after half of the bytes
  bool is_absent = false;
};

// Serves one content at every path, one connection after another.
class FileServer {
 public:
  FileServer(std::string content, const ServerHabits& habits) : content_(std::move(content)), habits_(habits) {
    listener_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(listener_.get(), 8) == 0);
    REQUIRE(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~FileServer() {
    stop_ = true;
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  FileServer(const FileServer&) = delete;
  FileServer& operator=(const FileServer&) = delete;

  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/a.bin"; }
  [[nodiscard]] int requests() const { return requests_; }
  [[nodiscard]] int64_t sent() const { return sent_; }

 private:
  void serve() {
    while (!stop_) {
      const UniqueFd connection(::accept(listener_.get(), nullptr, nullptr));
      if (connection.open()) answer(connection.get());
    }
  }

  void answer(int fd) {
    std::string request;
    char buffer[4096];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t got = ::read(fd, buffer, sizeof buffer);
      if (got <= 0) return;
      request.append(buffer, static_cast<size_t>(got));
    }
    const int number = requests_++;
    if (habits_.is_absent) return send(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nnope\n");
    if (number < habits_.busy) return send(fd, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    send_content(fd, request, number < habits_.busy + habits_.breaks);
  }

  void send_content(int fd, const std::string& request, bool breaks) {
    size_t begin = 0;
    const size_t range = request.find("Range: bytes=");
    const bool is_part = habits_.knows_ranges && range != std::string::npos;
    if (is_part) begin = std::stoul(request.substr(range + 13));
    if (begin >= content_.size()) return send(fd, "HTTP/1.1 416 Range\r\nContent-Length: 0\r\n\r\n");
    const size_t left = content_.size() - begin;
    send(fd, is_part ? "HTTP/1.1 206 Part\r\nContent-Range: bytes " + std::to_string(begin) + "-" +
                           std::to_string(content_.size() - 1) + "/" + std::to_string(content_.size()) + "\r\n"
                     : "HTTP/1.1 200 OK\r\n");
    send(fd, "Content-Length: " + std::to_string(left) + "\r\n\r\n");
    const std::string body = content_.substr(begin, breaks ? left / 2 : left);
    sent_ += static_cast<int64_t>(body.size());
    send(fd, body);
  }
  static void send(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }

  std::string content_;
  ServerHabits habits_;
  UniqueFd listener_;
  uint16_t port_ = 0;
  std::atomic<bool> stop_ = false;
  std::atomic<int> requests_ = 0;
  std::atomic<int64_t> sent_ = 0;
  std::thread thread_;
};

std::string some_content() {
  std::string content;
  for (int i = 0; i < 50'000; i++) content += std::to_string(i) + ' ';
  return content;
}

DownloadOptions options_for(const std::string& url, const std::string& path) {
  return {.url = url, .path = path, .attempts = 3, .first_pause = std::chrono::milliseconds(1)};
}

void write_text_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("a download is complete whatever the server's habits are", "[net]") {
  const std::string content = some_content();
  const dtrain::test::TempDir dir;
  const auto fetch = [&](const ServerHabits& habits, const std::string& there) {
    const std::string path = dir.path("a.part");
    write_text_file(path, there);
    FileServer server(content, habits);
    const Downloaded got = must(download(options_for(server.url(), path), Log::silent()));
    CHECK((must(read_file(path)) == content));
    CHECK(got.bytes == static_cast<int64_t>(content.size()));
    return server.sent();
  };
  const auto all = static_cast<int64_t>(content.size());
  CHECK(fetch({}, "") == all);
  CHECK(fetch({.busy = 2}, "") == all);
  CHECK(fetch({.breaks = 5}, "") == all);  // each attempt brings some bytes, so that three without any never follow
  CHECK(fetch({}, content.substr(0, 100'000)) == all - 100'000);
  CHECK(fetch({.breaks = 1}, content.substr(0, 100'000)) == all - 100'000);
  CHECK(fetch({}, content) == 0);
  // The first answer is all of the file, which the client does not want to append; it asks again.
  CHECK(fetch({.knows_ranges = false}, content.substr(0, 100'000)) == 2 * all);
}

TEST_CASE("a download that cannot succeed ends with the reason", "[net]") {
  const dtrain::test::TempDir dir;
  const std::string path = dir.path("a.part");
  {
    FileServer server(some_content(), {.is_absent = true});
    const Error error = download(options_for(server.url(), path), Log::silent()).error();
    CHECK(error.code == Code::kNotFound);
    CHECK_THAT(error.message, Contains(server.url()) && Contains("404"));
    CHECK(server.requests() == 1);
    CHECK_FALSE(std::filesystem::exists(path));  // an empty file is of no use
  }
  FileServer busy(some_content(), {.busy = 100});
  const Error error = download(options_for(busy.url(), path), Log::silent()).error();
  CHECK(error.code == Code::kUnavailable);
  CHECK_THAT(error.message, Contains("503"));
  CHECK(busy.requests() == 3);
  CHECK(download(options_for("file://" + dir.path("absent"), path), Log::silent()).error().code == Code::kNotFound);
  CHECK(download(options_for("gopher://127.0.0.1/a", path), Log::silent()).error().code == Code::kUnavailable);
  CHECK(download(options_for(busy.url(), dir.path("absent/a.part")), Log::silent()).error().code == Code::kData);
  std::atomic<bool> stop = true;
  FileServer sound(some_content(), {});
  DownloadOptions stopped = options_for(sound.url(), path);
  stopped.stop = &stop;
  CHECK(download(stopped, Log::silent()).error().code == Code::kPreempted);
}

TEST_CASE("a full disk ends a download and is named", "[net]") {
  FileServer server(some_content(), {});
  const Error error = download(options_for(server.url(), "/dev/full"), Log::silent()).error();
  CHECK(error.code == Code::kData);
  CHECK_THAT(error.message, Contains("/dev/full") && Contains("No space left on device"));
}

// The expected values are those of sha256sum and md5sum.
TEST_CASE("digests are those of md5sum and sha256sum", "[net]") {
  Digester md5(DigestKind::kMd5), sha(DigestKind::kSha256);
  for (const std::string_view part : {"ab", "c"}) {
    md5.add(std::as_bytes(std::span(part)));
    sha.add(std::as_bytes(std::span(part)));
  }
  CHECK(md5.hex() == "900150983cd24fb0d6963f7d28e17f72");
  CHECK(sha.hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
