#include "job/flags/allocation.h"

#include <map>

#include "job/flags/flags.h"
#include "support/catch.h"

namespace dtrain::job {
namespace {

using Variables = std::map<std::string, std::string>;

Environment environment_of(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

std::string launcher_in(const Variables& variables) {
  const std::optional<Allocation> allocation = allocation_of(environment_of(variables));
  return allocation ? allocation->launcher + ": " + allocation->text : "";
}

const Variables kSlurm = {{"SLURM_JOB_ID", "12"}, {"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_JOB_NUM_NODES", "3"}};

Result<Parsed> parse(const std::vector<std::string>& arguments, const Variables& variables) {
  return parse_flags(arguments, environment_of(variables));
}

const std::vector<std::string> kJob = {"-n", "2", "--network", "mlp", "--benchmark", "1"};

std::vector<std::string> job_with(std::vector<std::string> more) {
  more.insert(more.begin(), kJob.begin(), kJob.end());
  return more;
}

}  // namespace

TEST_CASE("an allocation of several hosts is recognized", "[job][allocation]") {
  CHECK(launcher_in({}).empty());
  CHECK(launcher_in(kSlurm) == "slurm: Slurm job 12, on n[1-3]");
  CHECK(launcher_in({{"SLURM_JOB_ID", "12"}, {"SLURM_JOB_NODELIST", "n1"}, {"SLURM_JOB_NUM_NODES", "1"}}).empty());
  CHECK(launcher_in({{"LSB_MCPU_HOSTS", "n1 4 n2 4 n1 2"}, {"LSB_JOBID", "7"}}) == "mpi: LSF job 7, on 2 hosts");
  CHECK(launcher_in({{"LSB_MCPU_HOSTS", "n1 4"}}).empty());
  CHECK(launcher_in({{"PE_HOSTFILE", "/x"}, {"NHOSTS", "4"}, {"JOB_ID", "9"}}) == "mpi: SGE job 9, on 4 hosts");
  CHECK(launcher_in({{"PBS_NUM_NODES", "2"}, {"PBS_JOBID", "3.head"}}) == "mpi: Torque job 3.head, on 2 hosts");
  CHECK(launcher_in({{"PBS_NUM_NODES", "two"}}).empty());
}

TEST_CASE("a launcher takes the allocation unless the user says where to start", "[job][allocation]") {
  const Parsed parsed = parse(kJob, kSlurm).value();
  CHECK(parsed.flags.launch.launcher == "slurm");
  REQUIRE(parsed.notes.size() == 1);
  CHECK(parsed.notes[0] ==
        "dtrain runs in Slurm job 12, on n[1-3]: --launcher slurm starts the processes on its hosts (--launcher local "
        "starts them on this host)");
  CHECK(parse(job_with({"--launcher", "local"}), kSlurm)->flags.launch.launcher == "local");
  CHECK(parse(job_with({"-H", "hosts"}), kSlurm)->flags.launch.launcher == "ssh");
  // A process of a job, and one that trains alone, stay where they are.
  CHECK(parse(job_with({"--role", "worker", "--scheduler", "n1:9091"}), kSlurm)->flags.launch.launcher == "local");
  CHECK(parse({"--network", "mlp", "--benchmark", "1"}, kSlurm)->flags.launch.launcher == "local");
}

TEST_CASE("several launchers of one job are refused", "[job][allocation]") {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    INFO(name);
    const auto refused = parse(kJob, {{name, "4"}});
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().message.find("mpirun or srun has started this command 4 times") == 0);
    CHECK(parse(kJob, {{name, "1"}}).has_value());
    CHECK(parse(job_with({"--role", "worker", "--scheduler", "n1:9091"}), {{name, "4"}}).has_value());
  }
}

}  // namespace dtrain::job
