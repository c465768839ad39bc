#include "net/web/web_module.h"

extern "C" {
extern const dtrain::net::WebModule dtrain_web_module;
const dtrain::net::WebModule dtrain_web_module = {.download = dtrain::net::download_with_curl,
                                                  .ask_http = dtrain::net::ask_http_with_curl};
}
