// The live page: a single HTML file that reads the events of a JobFacts from the relative path "events".
#pragma once

#include <string_view>

namespace dtrain::observe {

// The content of lib/observe/page/page.html, for a route of net::HttpRoute::Kind::kPage, which replaces each "@NONCE@"
// in it.
std::string_view live_page();

}  // namespace dtrain::observe
