#include "net/web/web_module.h"

namespace dtrain::net {

Result<Downloaded> download(const DownloadOptions& options, const Log& log) {
  DT_TRY(const WebModule* const module, load_module<WebModule>(kWebModule), "downloading {}", options.url);
  return module->download(options, log);
}

Result<WebAnswer> ask_http(const WebRequest& request) {
  DT_TRY(const WebModule* const module, load_module<WebModule>(kWebModule), "asking {}", request.url);
  return module->ask_http(request);
}

}  // namespace dtrain::net
