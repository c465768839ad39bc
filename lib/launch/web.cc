#include "launch/web_module.h"

namespace dtrain::launch {

Result<Downloaded> download(const DownloadOptions& options, const Log& log) {
  DT_TRY(const WebModule* const module, load_module<WebModule>(kWebModule), "downloading {}", options.url);
  return module->download(options, log);
}

Result<HttpAnswer> ask_http(const HttpRequest& request) {
  DT_TRY(const WebModule* const module, load_module<WebModule>(kWebModule), "asking {}", request.url);
  return module->ask_http(request);
}

}  // namespace dtrain::launch
