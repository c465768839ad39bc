#include "net/http_client.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <stdexcept>

namespace dtrain::test {

UniqueFd connect_to_port(uint16_t port, int receive_bytes) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (receive_bytes > 0) ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    throw std::runtime_error("no connection to port " + std::to_string(port));
  }
  return fd;
}

void send_text(const UniqueFd& connection, const std::string& text) {
  (void)::send(connection.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

std::string read_answer(const UniqueFd& connection, double seconds, const std::string& until) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::string answer;
  while (std::chrono::steady_clock::now() < end) {
    pollfd watched{.fd = connection.get(), .events = POLLIN, .revents = 0};
    if (::poll(&watched, 1, 50) <= 0) continue;
    std::array<char, 65536> buffer{};
    const ssize_t got = ::recv(connection.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) break;
    answer.append(buffer.data(), static_cast<size_t>(got));
    if (!until.empty() && answer.find(until) != std::string::npos) break;
  }
  return answer;
}

std::string http_get(uint16_t port, const std::string& path, const std::string& headers) {
  const UniqueFd connection = connect_to_port(port);
  const std::string host = headers.find("Host: ") == std::string::npos ? "Host: localhost\r\n" : "";
  send_text(connection, "GET " + path + " HTTP/1.1\r\n" + host + headers + "\r\n");
  return read_answer(connection);
}

int status_of(const std::string& answer) {
  return answer.size() < 12 ? 0 : std::stoi(answer.substr(9, 3));
}

std::string body_of(const std::string& answer) {
  const size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}

}  // namespace dtrain::test
