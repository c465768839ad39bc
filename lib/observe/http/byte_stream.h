// Bytes to and from a client, over a socket that does not block.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>

namespace dtrain::observe {

struct Moved {
  ssize_t bytes = 0;   // 0 without `wait_for`: the client has closed; -1: the connection is broken
  short wait_for = 0;  // POLLIN or POLLOUT: nothing was moved, and nothing will be before the socket is ready for this
};

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  virtual Moved receive(char* to, size_t size) = 0;
  virtual Moved send(const char* from, size_t size) = 0;
};

// Of bytes as they are. The socket must outlive it.
std::unique_ptr<ByteStream> plain_stream(int socket);

}  // namespace dtrain::observe
