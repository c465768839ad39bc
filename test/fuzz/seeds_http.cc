#include "fuzz/targets.h"

namespace dtrain::fuzz {

std::vector<std::string> request_seeds() {
  return {
      "GET / HTTP/1.1\r\nHost: localhost:8080\r\nConnection: keep-alive\r\nUser-Agent: Mozilla/5.0 (X11)\r\n"
      "Accept: text/html,*/*;q=0.8\r\nAccept-Encoding: gzip, deflate, br\r\n"
      "Cookie: a=1; dtrain_token_8080=736563726574; b=2\r\nUpgrade-Insecure-Requests: 1\r\n\r\n",
      "GET /?x=1&token=sec%3Bret+%2b HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
      "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9464\r\nAccept: application/openmetrics-text;version=1.0.0\r\n"
      "Authorization: Bearer secret\r\nX-Prometheus-Scrape-Timeout-Seconds: 10\r\n\r\n",
      "GET /trace HTTP/1.1\r\nhost: localhost\r\ndtrain-action:1\r\n\r\nGET /events HTTP/1.1\r\nHost: "
      "localhost\r\n\r\n",
      "HEAD /%6detrics#part HTTP/1.0\r\n\r\n",
      "\r\n\nGET / HTTP/1.1\nHost: a\nFolded: one\n two \n\tthree\nEmpty:\n\n",
      "POST /do HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
      "PUT * HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\nTrailer: t\r\n\r\n3\r\nabc\r\n0\r\nt: "
      "1\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n",
      "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\nProxy-Connection: close\r\n\r\n"};
}

}  // namespace dtrain::fuzz
