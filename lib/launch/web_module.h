// The module dtrain_web, which has all that needs libcurl: libcurl brings 25 other libraries, and most processes never
// download anything. download() and ask_http() load it.
#pragma once

#include "base/module.h"
#include "launch/cluster/http.h"
#include "launch/download/download.h"

namespace dtrain::launch {

struct WebModule {
  decltype(&launch::download) download;
  decltype(&launch::ask_http) ask_http;
};

// In the module.
Result<Downloaded> download_with_curl(const DownloadOptions& options, const Log& log);
Result<HttpAnswer> ask_http_with_curl(const HttpRequest& request);

}  // namespace dtrain::launch
