// Sends the values of a slice as messages.
#pragma once

#include <memory>
#include <span>

#include "kvstore/wire/message.h"
#include "kvstore/wire/transport.h"

namespace dtrain::kvstore {

// Sends `values` in order, as chunks of at most kChunkElements, each with a copy of `header`. The bytes are not copied:
// see Message for how long they must stay unchanged.
void send_values(Pipe& pipe, const Header& header, std::span<const float> values,
                 const std::shared_ptr<const void>& owner, bool checksum);

}  // namespace dtrain::kvstore
