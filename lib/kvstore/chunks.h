// Values of a slice as the messages that carry them.
#pragma once

#include <memory>
#include <span>

#include "kvstore/transport.h"
#include "kvstore/wire.h"

namespace dtrain::kvstore {

// Sends `values` as chunks of at most kChunkElements, in order, with `header` for each. The bytes go out from where
// they lie: Message says how long they must stay.
void send_values(Pipe& pipe, const Header& header, std::span<const float> values,
                 const std::shared_ptr<const void>& owner, bool checksum);

}  // namespace dtrain::kvstore
