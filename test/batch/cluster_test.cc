// The command lines of clusters' tools.

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "cluster/ask.h"
#include "cluster/batch_request.h"
#include "cluster/mpi.h"
#include "cluster/slurm.h"
#include "job/flags/flags.h"
#include "proc/signal_queue.h"
#include "support/catch.h"

namespace dtrain::cluster {
namespace {

std::string line_of(const launch::AgentStarter& starter, const launch::AgentCommand& agents) {
  return proc::shell_line(starter.command(agents).arguments);
}

const launch::AgentCommand kAgents{.hosts = {"node1", "10.0.0.2"},
                                   .launcher = "10.0.0.9",
                                   .directory = "/home/u/job 1",
                                   .arguments = {"/opt/dtrain", "launch-agent", "--connect", "10.0.0.9:4000"},
                                   .variables = {"DTRAIN_AGENT_KEY", "LD_LIBRARY_PATH"}};

}  // namespace

TEST_CASE("the kind of MPI is known by its mpirun", "[cluster][agents]") {
  CHECK(mpi_of({"mpirun (Open MPI) 4.1.4", "", "Report bugs to http://www.open-mpi.org/community/help/"}) ==
        Mpi::kOpenMpi);
  CHECK(mpi_of({"mpirun.openmpi (Open MPI) 5.0.7", "", "Report bugs to https://www.open-mpi.org/community/help/"}) ==
        Mpi::kOpenMpi);
  CHECK(mpi_of({"HYDRA build details:", "    Version:                                 4.0.2"}) == Mpi::kHydra);
  CHECK(mpi_of({"Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307"}) == Mpi::kHydra);
  CHECK(mpi_of({"mpirun 0.1"}).error().code == Code::kStartup);
  CHECK(mpi_of({}).error().code == Code::kStartup);
}

TEST_CASE("mpirun starts one agent per host and binds it to no core", "[cluster][agents]") {
  CHECK(line_of(mpi_starter(Mpi::kOpenMpi, true), kAgents) ==
        "mpirun --map-by ppr:1:node --bind-to none --host node1,10.0.0.2 -np 2 -x DTRAIN_AGENT_KEY -x LD_LIBRARY_PATH "
        "-wdir '/home/u/job 1' /opt/dtrain launch-agent --connect 10.0.0.9:4000");
  CHECK(line_of(mpi_starter(Mpi::kHydra, true), kAgents) ==
        "mpirun -localhost 10.0.0.9 -ppn 1 -hosts node1,10.0.0.2 -n 2 -genvlist DTRAIN_AGENT_KEY,LD_LIBRARY_PATH -wdir "
        "'/home/u/job 1' "
        "/opt/dtrain launch-agent --connect 10.0.0.9:4000");
  // In mpirun's own allocation the hosts are not named.
  CHECK(line_of(mpi_starter(Mpi::kOpenMpi, false), kAgents).find("--host") == std::string::npos);
}

TEST_CASE("srun starts one agent per node, which may use all of it", "[cluster][agents]") {
  CHECK(line_of(slurm_starter(false), kAgents) ==
        "srun --overlap --mem=0 --mpi=none --export=ALL --wait=0 --nodes=2 --ntasks=2 --ntasks-per-node=1 "
        "--nodelist=node1,10.0.0.2 '--chdir=/home/u/job 1' /opt/dtrain launch-agent --connect 10.0.0.9:4000");
  CHECK(mpi_starter(Mpi::kHydra, true).command(kAgents).environment.empty());
  CHECK(mpi_starter(Mpi::kOpenMpi, true).command(kAgents).environment.size() == 6);  // its daemons notice a cut network
  CHECK(slurm_starter(false).command(kAgents).environment.empty());
  CHECK(slurm_starter(true).command(kAgents).environment == std::vector<std::string>{"SLURM_CPU_BIND=none"});
  CHECK(binds_tasks({"SwitchType              = switch/none", "TaskPlugin              = task/affinity,task/cgroup"}));
  CHECK_FALSE(binds_tasks({"TaskPlugin              = task/none", "TaskPluginParam         = (null type)"}));
  // Slurm 24.11.
  CHECK_FALSE(binds_tasks({"TaskPlugin              = (null)", "TaskPluginParam         = (null type)"}));
}

TEST_CASE("workers on one node of Slurm get GPUs of their own, if there are enough", "[cluster][agents]") {
  const auto gpus_of = [](const std::vector<int64_t>& gpus, const std::string& on_node) {
    job::HostAssignment assignment{.servers = {}, .workers = {{"a"}, {"b"}, {"a"}}};
    share_gpus(
        gpus,
        [&](const std::string& name) {
          return name == "SLURM_GPUS_ON_NODE" && !on_node.empty() ? std::optional(on_node) : std::nullopt;
        },
        assignment);
    std::string text;
    for (const job::ProcessSlot& slot : assignment.workers)
      text += fmt::format("[{}]", fmt::join(slot.gpus.numbers, ","));
    return text;
  };
  CHECK(gpus_of({0, 1}, "4") == "[0,1][][2,3]");
  CHECK(gpus_of({0}, "4") == "[0][][1]");
  CHECK(gpus_of({0, 1}, "2") == "[][][]");  // as the flags say
  CHECK(gpus_of({1}, "4") == "[][][]");
  CHECK(gpus_of({0}, "") == "[][][]");
  CHECK(gpus_of({}, "4") == "[][][]");
}

TEST_CASE("--gpus all is refused where the number of GPUs must be requested", "[cluster][batch]") {
  job::Flags flags;
  flags.device.gpus = {.numbers = {0, 1}};
  CHECK(check_all_gpus(flags, "YARN"));
  flags.device.gpus = job::GpuList::all();
  CHECK(check_all_gpus(flags, "Slurm", true));
  CHECK(
      check_all_gpus(flags, "YARN").error().message ==
      "--gpus all: YARN gives a job only the GPUs that it requests, so their number must be known: give numbers, such "
      "as --gpus 0-3 for 4 GPUs");
}

TEST_CASE("a question to a tool brings its lines, or its own words, or what to do without the tool",
          "[cluster][agents]") {
  CHECK(ask({.program = {.arguments = {"sh", "-c", "echo one; echo two; echo three >&2"}}, .missing = ""}).value() ==
        std::vector<std::string>{"one", "two"});
  const auto refused = ask({.program = {.arguments = {"sh", "-c", "echo no such queue >&2; exit 4"}}, .missing = ""});
  CHECK(refused.error().code == Code::kStartup);
  CHECK(refused.error().message == "'sh -c 'echo no such queue >&2; exit 4'' ended with code 4: no such queue");
  const auto missing = ask({.program = {.arguments = {"no-such-tool"}}, .missing = "install it"});
  CHECK(missing.error().message == "cannot execute 'no-such-tool': No such file or directory; install it");
}

// As where kubectl applies a job's manifests: the Ctrl-C is for the launcher around it.
TEST_CASE("an order to a tool is not interrupted by a signal, which is kept", "[cluster][agents]") {
  proc::SignalQueue signals;
  const std::string script = fmt::format("kill -INT {}; cat", ::getpid());
  CHECK(ask({.program = {.arguments = {"sh", "-c", script}, .input = "a\nb\n"}, .missing = "", .is_order = true})
            .value() == std::vector<std::string>{"a", "b"});
  const std::vector<int> taken = signals.take();
  CHECK(std::count(taken.begin(), taken.end(), SIGINT) == 1);
  const auto question = ask({.program = {.arguments = {"sh", "-c", script + "; sleep 1000"}}, .missing = ""});
  CHECK(question.error().code == Code::kPreempted);
}

}  // namespace dtrain::cluster
