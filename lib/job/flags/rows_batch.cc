// The flags with which a job asks a batch system, YARN or Kubernetes for hosts.
#include "job/flags/flags.h"
#include "job/flags/rows.h"

namespace dtrain::job {

namespace {

constexpr double kCoresMax = 65536;
constexpr double kMemoryMax = 1e12;  // largest number of bytes that a job may request for one process

std::vector<Row> request_rows() {
  return {
      {.name = "nodes",
       .value = "N",
       .help = "number of nodes to request from the batch system",
       .bind = DT_FIELD(Flags, batch.nodes),
       .default_text = "the number of workers or servers, whichever is larger",
       .min = 0,
       .max = kProcessesMax},
      {.name = "queue",
       .value = "NAME",
       .help = "partition (Slurm) or queue (SGE, YARN) for the job",
       .bind = DT_FIELD(Flags, batch.queue, "none"),
       .default_text = "the default of the batch system"},
      {.name = "jobname",
       .value = "NAME",
       .help = "name of the job in the batch system",
       .bind = DT_FIELD(Flags, batch.job_name, "none"),
       .default_text = "dtrain-<network>"},
      {.name = "time-limit",
       .value = "TIME",
       .help = "time after which the batch system ends the job; the job writes a checkpoint before that",
       .bind = DT_FIELD(Flags, batch.time_limit),
       .default_text = "the default of the batch system",
       .min = 0,
       .max = kSecondsMax},
      {.name = "worker-cores",
       .value = "N",
       .help = "cores to request for each worker",
       .bind = DT_FIELD(Flags, batch.worker_cores),
       .default_text = "the default of the batch system",
       .min = 0,
       .max = kCoresMax},
      {.name = "server-cores",
       .value = "N",
       .help = "cores to request for each server",
       .bind = DT_FIELD(Flags, batch.server_cores),
       .default_text = "the default of the batch system",
       .min = 0,
       .max = kCoresMax},
      {.name = "worker-memory",
       .value = "BYTES",
       .help = "memory to request for each worker, such as 500M or 16G",
       .bind = DT_FIELD(Flags, batch.worker_memory),
       .default_text = "the default of the batch system",
       .min = 0,
       .max = kMemoryMax},
      {.name = "server-memory",
       .value = "BYTES",
       .help = "memory to request for each server",
       .bind = DT_FIELD(Flags, batch.server_memory),
       .default_text = "the default of the batch system",
       .min = 0,
       .max = kMemoryMax},
  };
}

// Flags that only some of the systems support.
std::vector<Row> system_rows() {
  return {
      {.name = "submit-option",
       .value = "OPTION",
       .help = "additional option for sbatch or qsub, such as --account=NAME; may be repeated",
       .bind = word_of(&Flags::batch, &BatchFlags::submit_options),
       .repeats = true},
      {.name = "image",
       .value = "IMAGE",
       .help = "Kubernetes: container image that contains dtrain",
       .bind = DT_FIELD(Flags, batch.image, "none")},
      {.name = "volume",
       .value = "CLAIM:PATH",
       .help = "Kubernetes: persistent volume claim, which all pods mount at PATH, for the data and the run directory",
       .bind = DT_FIELD(Flags, batch.volume, "none")},
  };
}

}  // namespace

std::vector<Row> batch_rows() {
  std::vector<Row> rows = request_rows();
  for (Row& row : system_rows()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace dtrain::job
