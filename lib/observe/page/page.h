// The live page: one file of HTML that reads the events of a JobFacts from the path "events" beside it.
#pragma once

#include <string_view>

namespace dtrain::observe {

// lib/observe/page/page.html. "@NONCE@" in it is for net::HttpRoute::Kind::kPage.
std::string_view live_page();

}  // namespace dtrain::observe
