#include "cluster/mpi.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <set>

#include "cluster/ask.h"

namespace dtrain::cluster {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kMpiMissing =
    "install Open MPI (Debian: openmpi-bin) or MPICH on this host and all hosts, or use --launcher ssh";

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

// Variables that make Open MPI's daemon end after 25 s on a host that has lost its network; by default it would stay
// for eight minutes. Version 4 has its own daemons, version 5 those of PRRTE.
Words keep_alive() {
  Words variables;
  for (const std::string daemon : {"OMPI", "PRTE"}) {
    append(variables, {daemon + "_MCA_oob_tcp_keepalive_time=10", daemon + "_MCA_oob_tcp_keepalive_intvl=5",
                       daemon + "_MCA_oob_tcp_keepalive_probes=3"});
  }
  return variables;
}

// The command line of Open MPI's mpirun. It starts one agent per host, which may use all cores: by default, Open MPI
// binds a process and its children to one core.
Words open_mpi(const launch::AgentCommand& agents, bool names_hosts) {
  Words words = {"mpirun", "--map-by", "ppr:1:node", "--bind-to", "none"};
  if (names_hosts) append(words, {"--host", fmt::format("{}", fmt::join(agents.hosts, ","))});
  append(words, {"-np", std::to_string(agents.hosts.size())});
  for (const std::string& name : agents.variables) append(words, {"-x", name});
  if (!agents.directory.empty()) append(words, {"-wdir", agents.directory});
  append(words, agents.arguments);
  return words;
}

Words hydra(const launch::AgentCommand& agents, bool names_hosts) {
  // The launcher's address replaces mpirun's own name for this host, which may mean another host elsewhere.
  Words words = {"mpirun", "-localhost", agents.launcher, "-ppn", "1"};
  if (names_hosts) append(words, {"-hosts", fmt::format("{}", fmt::join(agents.hosts, ","))});
  append(words, {"-n", std::to_string(agents.hosts.size())});
  if (!agents.variables.empty()) append(words, {"-genvlist", fmt::format("{}", fmt::join(agents.variables, ","))});
  if (!agents.directory.empty()) append(words, {"-wdir", agents.directory});
  append(words, agents.arguments);
  return words;
}

}  // namespace

Result<Mpi> mpi_of(const Words& version) {
  const auto contains = [&](const char* text) {
    return std::any_of(version.begin(), version.end(),
                       [&](const std::string& line) { return line.find(text) != std::string::npos; });
  };
  if (contains("Open MPI") || contains("OpenRTE")) return Mpi::kOpenMpi;
  if (contains("HYDRA") || contains("Intel(R) MPI")) return Mpi::kHydra;
  return fail(Code::kStartup, "mpirun belongs to an MPI implementation that dtrain does not know ('{}'); {}",
              version.empty() ? "" : version.front(), kMpiMissing);
}

Result<Mpi> installed_mpi() {
  DT_TRY(const Words version, ask({.program = {.arguments = {"mpirun", "--version"}}, .missing = kMpiMissing}));
  return mpi_of(version);
}

Result<Words> mpi_hosts(Mpi mpi) {
  // Open MPI starts one process on every host of its allocation if no number of processes is given.
  const Words arguments = mpi == Mpi::kOpenMpi
                              ? Words{"mpirun", "--map-by", "ppr:1:node", "--bind-to", "none", "hostname"}
                              : Words{"mpirun", "-ppn", "1", "hostname"};
  DT_TRY(const Words lines,
         ask({.program = {.arguments = arguments}, .missing = kMpiMissing, .limit = std::chrono::seconds(60)}),
         "asking mpirun for the hosts of its allocation");
  Words hosts;
  std::set<std::string> seen;
  for (const std::string& line : lines) {
    if (!line.empty() && seen.insert(line).second) hosts.push_back(line);
  }
  if (hosts.empty()) return fail(Code::kStartup, "mpirun's allocation has no host: name hosts with -H FILE");
  return hosts;
}

launch::AgentStarter mpi_starter(Mpi mpi, bool names_hosts) {
  return {.tool = "mpirun", .allocation = {}, .command = [=](const launch::AgentCommand& agents) {
            return launch::Command{
                .role = "mpirun",
                .arguments = mpi == Mpi::kOpenMpi ? open_mpi(agents, names_hosts) : hydra(agents, names_hosts),
                .environment = mpi == Mpi::kOpenMpi ? keep_alive() : Words()};
          }};
}

}  // namespace dtrain::cluster
