// The values of all training flags. rows_*.cc holds the table that gives each member here its flag: name, default,
// range and help text. The command line, --help, TOML files, environment variables and the JobSpec's text all use that
// table.
//
// parse_flags resolves its result as far as flags alone allow: the store, the number of servers, the schedule and
// similar values are final. Values that depend on the data set (augment.data_type, network.num_classes, ...) stay unset
// until apply_data_set (data_set.h) fills them in.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "job/flags/choices.h"
#include "job/flags/gpu_list.h"
#include "job/flags/store.h"
#include "job/process/inject.h"
#include "job/process/process_environment.h"
#include "job/process/process_name.h"

namespace dtrain::job {

struct JobSpec;

// Servers and the scheme. Like all members of JobFlags, these are part of the JobSpec and so equal in all processes.
struct SchemeFlags {
  std::string kv_store;  // name of the store; never one of its aliases
  Placement placement = Placement::kBalanced;
  int64_t bigarray_bound = 1000000;  // arrays of at least this many elements are divided among all servers
  UpdateOn update_on = UpdateOn::kAuto;
  int64_t reduce_threads = 4;
  bool deterministic = false;
  int64_t staleness = 0;                      // SSP's bound, in steps
  std::chrono::milliseconds ssp_warn{30000};  // waits for slower workers that take longer than this are logged
  Ungrouped ungrouped = Ungrouped::kError;
  GspWeight gsp_weight = {};
  std::optional<int64_t> group_staleness = {};  // GSP's bound between groups, in rounds; nullopt: no bound
  int64_t regroup_every = 0;                    // GSP regroups workers of similar speed every N epochs; 0: never
  int64_t backup = 0;                           // number of workers that a round of BSP does not wait for
  bool data_allocator = false;  // the scheduler reads the shares from a file, LaunchFlags::data_sharding_file
  bool allow_gaps = false;      // whether the shares may leave records out
  int64_t resplit_every = 0;    // shares rotate between ranks every N epochs; 0: never
  OnWorkerLoss on_worker_loss = OnWorkerLoss::kFail;
  Reshare reshare = Reshare::kEpoch;
  ElasticBatch elastic_batch = ElasticBatch::kOff;
  int64_t max_workers = 0;  // number of seats of workers; 0: as many as workers start with the job
  // The servers take a snapshot of each version that this number divides; 0: the job ends with a lost server.
  int64_t snapshot_every = 0;
};

struct NetworkFlags {
  std::string network = "resnet";    // a network's name, or LABEL:HASH for a symbol file (resolve/network_file.h)
  std::string file;                  // the path of the symbol file, if there is one; not part of the JobSpec
  int64_t num_layers = 0;            // number of layers; 0: given by the network's name or family
  int64_t num_classes = 0;           // number of classes; 0: taken from the data set
  std::vector<int64_t> image_shape;  // shape of the images, [c, h, w]; empty: taken from the data set
  double bn_momentum = 0.9;
  int64_t widen_factor = 1;
  int64_t num_group = 32;
  bool batch_norm = false, add_stn = false;
  double smooth_alpha = 0;
  std::string initializer = "default";  // how the initial weights are drawn (docs/arithmetic.md, "Initializers")
  // Fine-tuning (graph/fine_tune.h). Empty: the network keeps its last layer.
  std::string layer_before_fullc;
  std::vector<std::string> lr_mult;
};

// Data flags that must be equal in all workers.
struct AugmentFlags {
  std::string data_type;     // one of the names in data/sources/recognize.h; empty: recognized from the files
  int64_t label_width = 1;   // number of labels per record
  int64_t num_examples = 0;  // number of training records to use; 0: all records in the files
  bool shuffle = true;
  int64_t shuffle_chunk = 0;  // MiB of consecutive records that are shuffled together; 0: the whole share
  // Mean of each channel, which is subtracted from the pixels; empty: taken from the data set.
  std::vector<double> rgb_mean;
  std::vector<double> rgb_std;  // standard deviation of each channel, by which pixels are divided; empty: 1
  std::optional<double> scale;  // factor by which pixels are multiplied; nullopt: taken from the data set
  bool random_crop = false, random_mirror = false, mirror = false;
  int64_t pad_size = 0, fill_value = 127;
  // The following members have the names of MXNet's parameters for the same augmentations. resize and val_resize that
  // are not set mean "fit" for class directories, and otherwise "off".
  std::optional<Resize> resize, val_resize;
  int64_t inter_method = 1;
  bool random_resized_crop = false;
  double min_random_area = 1, max_random_area = 1;
  int64_t min_crop_size = -1, max_crop_size = -1;
  int64_t max_random_rotate_angle = 0, rotate = 0;  // angles of rotation in degrees; 0: no rotation
  std::vector<int64_t> rotate_list;
  double max_random_shear_ratio = 0;
  std::optional<double> min_random_aspect_ratio;
  double max_random_aspect_ratio = 0;
  double min_random_scale = 1, max_random_scale = 1;
  double min_img_size = 0, max_img_size = 1e10;
  int64_t max_random_h = 0, max_random_s = 0, max_random_l = 0;
  double brightness = 0, contrast = 0, saturation = 0, pca_noise = 0;
  double max_random_contrast = 0, max_random_illumination = 0;
  // The following flags set several others. resolve() expands them into the members above.
  int64_t aug_level = 0;  // level of the augmentation; 0: off
  bool imagenet_augmentation = false;
  bool benchmark = false;   // whether to train on synthetic data
  int64_t num_batches = 0;  // number of synthetic batches per worker and epoch; 0: a default
};

// After the flags are resolved, lr_factor has a value, and at most one of lr_step_epochs and lr_factor_epoch is set. If
// neither is set, lr_factor is 1, and the rate is constant unless lr_scheduler is kPoly or kCosine; any other
// lr_scheduler becomes kAuto.
struct OptimizerFlags {
  std::string optimizer = "sgd";
  double lr = 0.1;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  double clip_gradient = 0;  // limit on the absolute value of each element of a gradient; 0: no limit
  std::optional<double> lr_factor;
  std::vector<double> lr_step_epochs;
  double lr_power = 0;         // P of "--lr-step-epochs powP"; 0: none. With kPoly it has a value once resolved
  double lr_factor_epoch = 0;  // number of epochs between multiplications by lr_factor; 0: lr_factor_epoch is not used
  LrScheduler lr_scheduler = LrScheduler::kAuto;
  double lr_warmup_epochs = 0, lr_warmup_begin = 0;
  int64_t macrobatch_size = 0;  // effective batch size of lbsgd, in samples; 0: one update's samples
  double warmup_epochs = 5;     // length of lbsgd's warm-up, in epochs
  WarmupStrategy warmup_strategy = WarmupStrategy::kLinear;
  OnNan on_nan = OnNan::kFail;
};

inline constexpr double kLossScaleMax = 1 << 24;

struct JobFlags {
  int64_t num_workers = 1;
  int64_t num_servers = 0;  // number of servers; 0: the store has none
  SchemeFlags scheme;
  std::string dtype = "float32";
  std::string loss_scale = "auto";  // once the flags are resolved: "dynamic", "none" or a number
  NetworkFlags network;
  AugmentFlags augment;
  int64_t batch_size = 128;  // samples in a batch of one worker
  int64_t num_epochs = 100;
  OptimizerFlags optimizer;
  std::vector<int64_t> top_k;     // metrics are summed over the workers, so all workers need the same ones
  std::vector<std::string> loss;  // losses to report in addition: "ce", "nll"
  std::optional<uint64_t> seed;   // seed of the job; nullopt: drawn by the scheduler
  // All workers validate after every N steps within an epoch, where N is this number. 0: only at the end of the epoch.
  int64_t eval_batches_interval = 0;
  std::optional<int64_t> time_batches_after;  // number of batches after which batches are timed; nullopt: none is timed
};

// Flags of the process, like those of the structs below: they may differ between the processes of a job.
struct LaunchFlags {
  std::string launcher = "local";  // once resolved, "ssh" if there is a host file and the flag was not given
  // SGE's parallel environment, YARN's resource manager URL, or print's systems ("slurm,sge"). Empty: none was given.
  std::string launcher_argument;
  // Whether servers and workers run on other hosts than the launcher.
  [[nodiscard]] bool on_other_hosts() const { return launcher != "local"; }
  std::string hostfile;  // path of the host file; empty: none
  HostOrder host_order = HostOrder::kSpread;
  Role role = Role::kNone;
  std::string scheduler;  // address of the scheduler, HOST:PORT; empty: none given
  std::optional<int64_t> rank;
  bool joins = false;           // a worker that joins a job while it runs (dtrain join)
  std::string advertise, bind;  // own address and the one to listen on; empty: chosen automatically
  // the first of these interfaces that the host has is used; empty: chosen by route
  std::vector<std::string> interfaces;
  int64_t port = 0;                       // port to listen on; 0: any free port
  int64_t port_first = 0, port_last = 0;  // the range of --port-range; 0: none
  std::string token_file;
  std::string token;     // DTRAIN_TOKEN; never printed and never put on a command line
  std::string terminal;  // TERM: the type of the terminal that stderr may be connected to
  bool insecure = false;
  std::string tls_cert, tls_key, tls_ca;
  bool allow_mixed_builds = false;
  bool dry_run = false;
  // Paths of files that only the scheduler reads.
  std::string groups_file = "groups", data_sharding_file = "data_sharding";
  std::string trace_events;  // file for the events of the servers; empty: they are not written
  int64_t trace_steps = 0;   // number of steps for which every process writes a timeline; 0: none
  std::string metrics_addr;  // address at which metrics are served, HOST:PORT; empty: they are not served
  std::string config, preset;
  // Variables for the processes that are started, each as "NAME=value" or "NAME".
  std::vector<std::string> env, env_server, env_worker;
  std::string env_file;
  // Directory on the hosts to which this program and the current directory are copied; empty: nothing is copied.
  std::string sync_dst_dir;
  std::vector<std::string> exclude;
  std::string run_dir;     // the run directory; empty: default_run_dir()
  bool overwrite = false;  // whether to delete the run that run_dir holds and start a new one
  std::string cache_dir;   // directory for caches of facts about this host's devices; empty: no cache
  std::string claim_dir;   // directory of the files with which processes notice that they use the same GPU; empty: none
  int64_t verbose = 0;
  int64_t threads = 0;  // number of compute threads of this process; 0: its share of the host's cores
  // A launcher reads what the scheduler prints, because it has set kLauncherVariable (scheduler_lines.h).
  bool has_launcher = false;
  int64_t host_roles = 0;  // DTRAIN_HOST_ROLES: number of servers and workers on this host; 0: not set
  std::chrono::milliseconds stop_timeout{
      0};  // grace period of a launcher between TERM and KILL; 0: derived from the job's steps and checkpoints
  int64_t max_restarts = 0;  // how often a launcher starts a failed job again
  int64_t restart = 0;       // DTRAIN_RESTART: how often the launcher has started this job again
  std::string state_dir;     // directory of the scheduler's decisions; empty: they are not kept
  int64_t returns = 0;       // DTRAIN_RETURNS: how many processes of the running job had this place before
};

// What to request from a batch system, YARN or Kubernetes. Empty or 0: the system's own default.
struct BatchFlags {
  std::string queue, job_name;
  int64_t nodes = 0;  // number of nodes; 0: as many as there are workers or servers, whichever is more
  std::chrono::milliseconds time_limit{0};       // time limit of the whole job
  int64_t worker_cores = 0, server_cores = 0;    // number of cores for each process
  int64_t worker_memory = 0, server_memory = 0;  // bytes of memory for each process
  std::vector<std::string> submit_options;       // further options for sbatch, salloc or qsub
  std::string image;                             // the container image in which the processes run
  std::string volume;                            // volume to mount in Kubernetes, as "CLAIM:PATH"
};

struct WireFlags {
  std::chrono::milliseconds heartbeat_interval{2000}, heartbeat_timeout{10000};
  std::chrono::milliseconds stall_timeout{0};  // 0: none
  int64_t min_workers = 1;
  std::chrono::milliseconds rejoin_timeout{60000};  // time for another worker to take a lost one's place
  bool drain = false;                               // whether TERM makes a worker leave the job
  std::chrono::milliseconds start_timeout{300000};
  std::chrono::milliseconds scheduler_grace{30000};
  Inject inject;
};

struct DeviceFlags {
  GpuList gpus;                        // the GPUs to use; empty: CPU devices are used
  int64_t cpus = 1;                    // number of CPU devices if there are no GPUs
  std::vector<double> work_load_list;  // relative load of each device; empty: equal loads
  bool tf32 = false;
  // The number of devices. With --gpus all, only a process that has asked for the numbers knows it (find_gpus in
  // role/setup/devices.h).
  [[nodiscard]] int64_t count() const {
    DT_CHECK(gpus.has_numbers(), "--gpus {}: the number of GPUs is not known yet", format_value(gpus));
    return gpus.empty() ? cpus : static_cast<int64_t>(gpus.numbers.size());
  }
  bool synthetic_on_device = false;  // with --benchmark: whether the batch lies in the memory of the device
  bool winograd = true;
  std::string check;  // what the first batch is compared with: "reference"; empty: nothing
};

// Data flags that may differ between processes.
struct DataFlags {
  // Directory of the data, and files in it (paths relative to data_dir). An empty path means the data set's usual file.
  std::string data_dir, data_train, data_val, data_train_idx, data_val_idx;
  std::string path_imglist;        // path of a file of labels by record id; empty: use the labels in the records
  int64_t data_threads = 0;        // number of decode threads; 0: a part of LaunchFlags::threads
  bool data_threads_auto = false;  // whether the number of decode threads is chosen while the run trains
  int64_t prefetch_buffer = 4;
  std::string mean_img;  // path of the mean image; empty: none
  int64_t max_bad_records = 100;
};

struct LoopFlags {
  // Prefixes of checkpoints; empty: model_prefix is <run-dir>/<network>, and save_model_prefix is model_prefix.
  std::string model_prefix, save_model_prefix;
  std::optional<int64_t> load_epoch;
  std::string pretrained_model;  // the model to fine-tune; empty: none
  // the value of --load-epoch if --pretrained-model is given; set by resolve()
  std::optional<int64_t> pretrained_epoch;
  std::string resume;       // the run to continue: "auto" or a run directory; empty: none
  int64_t save_period = 1;  // number of epochs between two checkpoints; 0: no checkpoints
  // Time between checkpoints within an epoch; 0: none are written within epochs.
  std::chrono::milliseconds save_every{0};
  bool save_optimizer_states = true;
  int64_t keep = 3;     // number of checkpoints of epochs to keep; 0: all
  int64_t monitor = 0;  // number of steps between lines about all tensors; 0: no such lines
  int64_t disp_batches = 20;
  LogFormat log_format = LogFormat::kNew;
  std::string log_file;    // path of a further log file; empty: none
  double log_time_to = 0;  // logs when an accuracy first reaches each multiple of this; 0: off
  bool test_io = false;    // whether to read the training data once instead of training
  bool retrain = false;    // MXNet-G's flag: resolve() turns it into resume unless there is a load_epoch
};

// Where a flag's value comes from, from the weakest source to the strongest.
enum class Source { kDefault, kEnvironment, kPreset, kConfig, kResumed, kCommandLine };

struct Flags {
  JobFlags job;
  LaunchFlags launch;
  BatchFlags batch;
  WireFlags wire;
  DeviceFlags device;
  DataFlags data;
  LoopFlags loop;
  std::map<std::string, Source, std::less<>> sources;  // keyed by name without dashes ("batch-size"); absent: kDefault

  [[nodiscard]] Source source(std::string_view name) const;
  [[nodiscard]] bool given(std::string_view name) const { return source(name) != Source::kDefault; }
  // True if the job has more than one process: this process has a role, or starts the other processes.
  [[nodiscard]] bool distributed() const {
    return launch.role != Role::kNone || job.num_servers > 0 || job.num_workers > 1;
  }
};

struct Parsed {
  Flags flags;
  bool help = false;  // --help was given; with it or --version, no other flag is read
  bool version = false;
  std::vector<std::string> notes;  // lines for the user: hints, and variables that this version ignores
};

// Reads the flags of `dtrain [train]`. `arguments` is the command line without the program's name and the sub-command.
// The command line takes precedence over --config, which takes precedence over --preset, the environment and the
// defaults, in this order. --resume DIR adds the flags of the run in DIR. They rank below every source that gives
// --resume, and above all sources that are weaker than these. Code::kUsage names the nearest known flag, the
// replacement or the valid values; kDevice: --gpus on a host without GPUs.
// `joined`: the running job that this process joins as a worker, whose flags the command line follows; null: none.
Result<Parsed> parse_flags(const std::vector<std::string>& arguments, const Environment& environment,
                           const JobSpec* joined = nullptr);

// Removes the flags with these names (as in the table, without dashes) and their values from a command line.
std::vector<std::string> without_flags(const std::vector<std::string>& arguments,
                                       const std::vector<std::string>& names);

// The text of --help: all flags with their defaults, grouped by section.
std::string help_text();

// The flags that differ from their defaults, as "name=value, name=value", for the log line "start with arguments ...".
std::string describe(const Flags& flags);

// The number of updates that lbsgd accumulates: the smallest that covers --macrobatch-size samples.
int64_t accumulated_updates(const JobFlags& flags);
// True if the optimizer needs the norms of whole arrays. Servers hold only slices, so they cannot run such an
// optimizer.
bool uses_norms(const OptimizerFlags& flags);
Store store_of(const JobFlags& flags);

// Returns "runs/<network>-<UTC time>".
std::string default_run_dir(const Flags& flags, std::chrono::system_clock::time_point now);

}  // namespace dtrain::job
