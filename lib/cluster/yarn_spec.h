// The specification of a YARN service (Hadoop 3.1 and later) that runs a job: one component, whose containers are the
// job's nodes.
#pragma once

#include <string>
#include <vector>

#include "cluster/batch_request.h"

namespace dtrain::cluster {

struct YarnService {
  std::string name;   // name of the service: at most 63 lower-case letters, digits and '-', beginning with a letter
  std::string queue;  // queue of the service; empty: YARN's default
  int64_t containers = 1;
  NodeRequest container = {};
  std::chrono::seconds lifetime{0};           // longest time that the service may run; 0: no limit
  std::string image = {};                     // Docker image; empty: the program runs on the host
  std::string script = {};                    // script that each container runs with bash
  std::vector<std::string> environment = {};  // variables of the containers, each as "NAME=value"
};

// The placeholder for the number of a container, from 0, which YARN replaces in the script.
inline constexpr const char* kYarnNumber = "${COMPONENT_ID}";
// The name of container 0, if the cluster runs YARN's DNS server.
inline constexpr const char* kYarnFirstHost = "node-0.${SERVICE_NAME}.${USER}.${DOMAIN}";

// The JSON for POST /app/v1/services. The script is stored as a file in each container ("conf/dtrain.sh" in its
// directory), because YARN would pass a command through two shells. A container that has ended is not started again.
std::string yarn_spec(const YarnService& service);

}  // namespace dtrain::cluster
