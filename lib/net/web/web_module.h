// The module dtrain_web, which contains all code that needs libcurl. It is separate because libcurl depends on 25 other
// libraries, and most processes never download anything. download() and ask_http() load it.
#pragma once

#include "base/module.h"
#include "net/web/download.h"
#include "net/web/http_client.h"

namespace dtrain::net {

struct WebModule {
  decltype(&net::download) download;
  decltype(&net::ask_http) ask_http;
};

// Implemented in the module.
Result<Downloaded> download_with_curl(const DownloadOptions& options, const Log& log);
Result<WebAnswer> ask_http_with_curl(const WebRequest& request);

}  // namespace dtrain::net
