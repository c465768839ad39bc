#include "kvstore/wire/chunks.h"

#include <algorithm>

namespace dtrain::kvstore {

void send_values(Pipe& pipe, const Header& header, std::span<const float> values,
                 const std::shared_ptr<const void>& owner, bool checksum) {
  for (size_t first = 0; first < values.size(); first += kChunkElements) {
    const std::span<const float> chunk = values.subspan(first, std::min<size_t>(kChunkElements, values.size() - first));
    Header of_chunk = header;
    of_chunk.first_element = static_cast<uint32_t>(first);
    of_chunk.element_count = static_cast<uint32_t>(chunk.size());
    pipe.send(make_message(of_chunk, std::as_bytes(chunk), owner, checksum));
  }
}

}  // namespace dtrain::kvstore
