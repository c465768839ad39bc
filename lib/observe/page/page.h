// The live page: a single HTML file that reads the events of a JobFacts from the relative path "events".
#pragma once

#include <string_view>

namespace dtrain::observe {

// The content of lib/observe/page/page.html. "@NONCE@" in it is for net::HttpRoute::Kind::kPage.
std::string_view live_page();

}  // namespace dtrain::observe
