// Owns the list of addresses that getaddrinfo returns.
#pragma once

#include <netdb.h>

#include <memory>

namespace dtrain::net {

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, FreeAddresses>;

}  // namespace dtrain::net
