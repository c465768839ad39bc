// The text form of the rest of an epoch, in checkpoints and in messages.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "data/loading/epoch_rest.h"

namespace dtrain::train {

// "5 32:0-50,50-100 16:0-20,20-36": from step 5 on; two workers have read 32 records each of the records 0 to 49 and 50
// to 99, then two others 16 each of the list of the 36 records that were left. Empty if the epoch is not divided.
std::string to_text(const data::EpochRest& rest);
// Code::kData if the text has another form, or a part is not within the records that the parts before it have left.
Result<data::EpochRest> parse_rest(std::string_view text);

}  // namespace dtrain::train
