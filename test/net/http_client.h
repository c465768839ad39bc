// A plain HTTP client for tests: one connection, one request, the whole answer.
#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace dtrain::test {

// A connection to 127.0.0.1. `receive_bytes` is the size of its receive buffer; 0: the system's.
UniqueFd connect_to_port(uint16_t port, int receive_bytes = 0);
void send_text(const UniqueFd& connection, const std::string& text);
// Reads until the server closes, at most `seconds`, or until `until` has come.
std::string read_answer(const UniqueFd& connection, double seconds = 60, const std::string& until = "");
// GET with more header lines ("Cookie: a=b\r\n"). Host is localhost unless the headers have one.
std::string http_get(uint16_t port, const std::string& path, const std::string& headers = "");
int status_of(const std::string& answer);
std::string body_of(const std::string& answer);

}  // namespace dtrain::test
