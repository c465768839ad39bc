// Limits how long a TCP connection may be silent before the system closes it.
#pragma once

#include <string>
#include <vector>

namespace dtrain::comm {

// For the connections of this process of which one end has one of these addresses, each the bytes of a sockaddr_in or
// sockaddr_in6: they are closed if the other host has acknowledged nothing for this time, although something was sent
// to it. If nothing else is sent, the system sends probes. Options that the system does not have are left out.
void limit_silence_of(const std::vector<std::string>& addresses, double seconds);

}  // namespace dtrain::comm
