// What commands ask of their tools, as their command lines say. For tests, which follow each flag to the options that it
// sets, where running the command would show less.
#pragma once

#include "command.h"
#include "tools/bench_input.h"
#include "tools/bench_kv.h"
#include "tools/bench_train.h"
#include "tools/data_get.h"

namespace dtrain::cmd {

Result<tools::BenchTrainOptions> bench_train_request(const Call& call);
Result<tools::BenchKvOptions> bench_kv_request(const Call& call);
Result<tools::BenchInputOptions> bench_input_request(const Call& call);
Result<tools::DataGetOptions> data_get_request(const Call& call);

}  // namespace dtrain::cmd
