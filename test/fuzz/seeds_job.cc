#include "fuzz/targets.h"

namespace dtrain::fuzz {

std::vector<std::string> hosts_seeds() {
  return {
      "node1 slots=2 gpus=0,1   # two of each\nnode2:2222 user=train\n\n[fe80::1%eth0]:22 role=worker\n"
      "[2001:db8::7] role=server slots=1\n172.30.0.172\nnode2:2222\n",
      "a slots=4\nb slots=4 gpus=0,2-4 role=any\n", "a gpus=auto\nb gpus=0-1\na\n", "localhost\r\n"};
}

std::vector<std::string> groups_seeds() {
  return {"node1 node2\nnode1 [fe80::1]\n", "node1:1 10.0.0.2\n\n[fe80::1]:0 #0\n", "#0 #2\n#1 #3\n", "#3\n",
          "fe80::1"};
}

}  // namespace dtrain::fuzz
