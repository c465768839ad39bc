#include "observe/http/byte_stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace dtrain::observe {
namespace {

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(int socket) : socket_(socket) {}

  Moved receive(char* to, size_t size) override { return moved(::recv(socket_, to, size, MSG_DONTWAIT), POLLIN); }
  Moved send(const char* from, size_t size) override {
    return moved(::send(socket_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT), POLLOUT);
  }

 private:
  static Moved moved(ssize_t bytes, short event) {
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return {.bytes = 0, .wait_for = event};
    return {.bytes = bytes};
  }

  const int socket_;
};

}  // namespace

std::unique_ptr<ByteStream> plain_stream(int socket) {
  return std::make_unique<PlainStream>(socket);
}

}  // namespace dtrain::observe
