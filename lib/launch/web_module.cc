#include "launch/web_module.h"

extern "C" {
extern const dtrain::launch::WebModule dtrain_web_module;
const dtrain::launch::WebModule dtrain_web_module = {.download = dtrain::launch::download_with_curl,
                                                     .ask_http = dtrain::launch::ask_http_with_curl};
}
