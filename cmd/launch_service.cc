#include "cluster/yarn.h"
#include "command.h"
#include "job/process/exit_code.h"
#include "launch/call_back.h"
#include "tool.h"

namespace dtrain::cmd {

namespace {

struct ServiceOptions {
  std::string url, name;
};

}  // namespace

Result<int> launch_service(const Call& call) {
  const job::FlagTable<ServiceOptions> table({{.name = "url",
                                               .value = "URL",
                                               .help = "address of YARN's web services",
                                               .bind = DT_FIELD(ServiceOptions, url, "none")},
                                              {.name = "name",
                                               .value = "NAME",
                                               .help = "name of the service",
                                               .bind = DT_FIELD(ServiceOptions, name, "none")}});
  const std::string usage = "dtrain launch-service [FLAGS]\nFollows a service of YARN. The launcher starts it.";
  DT_TRY(const ToolLine<ServiceOptions> line, read_tool_line(table, usage, call, 0, 0));
  if (line.help) return job::kExitOk;
  DT_TRY(cluster::YarnUrl url, cluster::parse_yarn_url(line.options.url, ""));
  url.ca_file = call.environment("SSL_CERT_FILE").value_or("");
  const std::string key = call.environment(launch::kAgentKey).value_or("");
  std::string spec = call.environment(cluster::kYarnSpec).value_or("");
  const std::string placeholder = fmt::format("@{}@", launch::kAgentKey);
  if (const size_t at = spec.find(placeholder); at != std::string::npos) spec.replace(at, placeholder.size(), key);
  DT_TRY_VOID(cluster::follow_yarn_service(url, line.options.name, spec));
  return job::kExitOk;
}

}  // namespace dtrain::cmd
