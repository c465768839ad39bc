// What gRPC itself writes to stderr.
#pragma once

namespace dtrain::rpc {

// gRPC's own lines ("E1121 09:32:37 ... Handshake failed") stop, for the whole process: whatever matters of them comes
// as an Error with an address and a cause. Call it once, before gRPC is used.
void silence_library();

}  // namespace dtrain::rpc
