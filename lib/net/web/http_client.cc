#include "net/web/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>

#include "net/web/web_module.h"

namespace dtrain::net {
namespace {

constexpr size_t kBodyMax = 1 << 20;

size_t take_body(const char* bytes, size_t size, size_t count, void* body) {
  auto& text = *static_cast<std::string*>(body);
  text.append(bytes, std::min(size * count, kBodyMax - std::min(text.size(), kBodyMax)));
  return size * count;
}

// A function of its own, because libcurl's options are macros over a variadic function.
void set_options(CURL* curl, const WebRequest& request, const curl_slist* headers, std::string& body, char* error) {
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);  // a standby resource manager redirects to the active one
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_ANY);
  curl_easy_setopt(curl, CURLOPT_USERPWD, ":");  // Kerberos determines the user
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(request.limit.count()));
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
  if (!request.ca_file.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, request.ca_file.c_str());
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &body);
  if (request.body.empty()) return;
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.c_str());
}

}  // namespace

Result<WebAnswer> ask_http_with_curl(const WebRequest& request) {
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(), curl_easy_cleanup);
  if (curl == nullptr) return fail(Code::kInternal, "libcurl cannot be used");
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(
      curl_slist_append(nullptr, "Content-Type: application/json"), curl_slist_free_all);
  curl_slist_append(headers.get(), "Accept: application/json");
  WebAnswer answer;
  char error[CURL_ERROR_SIZE] = "";
  set_options(curl.get(), request, headers.get(), answer.body, error);
  const CURLcode code = curl_easy_perform(curl.get());
  if (code != CURLE_OK) {
    return fail(Code::kUnavailable, "{} {}: {}", request.method, request.url,
                error[0] != '\0' ? error : curl_easy_strerror(code));
  }
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  answer.status = status;
  return answer;
}

}  // namespace dtrain::net
