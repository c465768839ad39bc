// The options that commands pass to the functions of lib/, parsed from a command line. They are declared for tests,
// which check which option each flag sets; running the command would show less.
#pragma once

#include "bench/input.h"
#include "bench/kv.h"
#include "bench/train.h"
#include "command.h"
#include "dataset/get.h"

namespace dtrain::cmd {

Result<bench::BenchTrainOptions> bench_train_request(const Call& call);
Result<bench::BenchKvOptions> bench_kv_request(const Call& call);
Result<bench::BenchInputOptions> bench_input_request(const Call& call);
Result<dataset::DataGetOptions> data_get_request(const Call& call);

}  // namespace dtrain::cmd
