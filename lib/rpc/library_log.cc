#include "rpc/library_log.h"

#include <grpc/support/log.h>

namespace dtrain::rpc {

void silence_library() {
  gpr_set_log_function([](gpr_log_func_args*) {});
}

}  // namespace dtrain::rpc
