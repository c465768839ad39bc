// The values of all training flags. rows_*.cc holds the table that gives each member here its flag: name, default,
// range and help text. The command line, --help, TOML files, environment variables and the JobSpec's text all use that
// table.
//
// parse_flags resolves its result as far as flags alone allow: the store, the number of servers, the schedule and the
// like hold what the job will use. Values that depend on the data set (augment.data_type, network.num_classes, ...)
// stay unset until apply_data_set (data_set.h) fills them in.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "job/inject.h"
#include "job/process_name.h"
#include "job/store.h"

namespace dtrain::job {

enum class UpdateOn { kAuto, kStore, kWorker };
enum class Placement { kHash, kBalanced };
enum class OnNan { kFail, kSkip };
enum class HostOrder { kSpread, kPack };
enum class Ungrouped { kError, kOwn };   // what a worker in no group is
enum class LogFormat { kNew, kLegacy };  // as MXNet 1.4 and later print; as 0.7 to 1.3 did

// The weight of a GSP update with staleness Y, in the order of the rules: 1/Y, 1, Y^-parameter, max(1/Y, parameter).
struct GspWeight {
  enum class Rule { kInverse, kNone, kPower, kFloor };
  Rule rule = Rule::kInverse;
  double parameter = 0;
  bool operator==(const GspWeight&) const = default;
};

// Of the job: hashed, equal in all processes. Section 4.
struct SchemeFlags {
  std::string kv_store;  // canonical name
  Placement placement = Placement::kBalanced;
  int64_t bigarray_bound = 1000000;  // elements
  UpdateOn update_on = UpdateOn::kAuto;
  int64_t reduce_threads = 4;
  bool deterministic = false;
  int64_t staleness = 0;                      // SSP's bound, in steps
  std::chrono::milliseconds ssp_warn{30000};  // a wait for the bound that is longer is logged
  Ungrouped ungrouped = Ungrouped::kError;
  GspWeight gsp_weight = {};
  std::optional<int64_t> group_staleness = {};  // GSP's bound between groups, in their rounds; nothing: none
  int64_t regroup_every = 0;                    // epochs after which GSP's groups are those of like speed; 0: never
  int64_t backup = 0;                           // workers that a round of BSP does not wait for
  bool data_allocator = false;                  // shares from LaunchFlags::data_sharding_file
  bool allow_gaps = false;                      // which may leave records out
  int64_t resplit_every = 0;                    // epochs after which shares rotate; 0: never
};

// Section 7.
struct NetworkFlags {
  std::string network = "resnet";
  int64_t num_layers = 0;            // 0: as the network's name or family says
  int64_t num_classes = 0;           // 0: as the data set says
  std::vector<int64_t> image_shape;  // [c, h, w]; empty: as the data set says
  double bn_momentum = 0.9;
  int64_t widen_factor = 1;
  std::string initializer = "default";  // docs/arithmetic.md, "Initializers"
};

// Section 8, what all workers must have in common.
struct AugmentFlags {
  std::string data_type;     // "mnist", "cifar10", "cifar100", "imagenet"; empty: recognised from the files
  int64_t num_examples = 0;  // 0: the records in the files
  bool shuffle = true;
  std::vector<double> rgb_mean;  // per channel; empty: as the data set says
  std::vector<double> rgb_std;
  std::optional<double> scale;  // nothing: as the data set says
  bool random_crop = false, random_mirror = false, mirror = false;
  int64_t pad_size = 0, fill_value = 127;
  // Named as MXNet's parameters for the same augmentations.
  int64_t resize = 0, val_resize = 0;  // 0: off
  int64_t inter_method = 1;
  bool random_resized_crop = false;
  double min_random_area = 1, max_random_area = 1;
  int64_t min_crop_size = -1, max_crop_size = -1;
  int64_t max_random_rotate_angle = 0, rotate = 0;  // 0: off
  std::vector<int64_t> rotate_list;
  double max_random_shear_ratio = 0;
  std::optional<double> min_random_aspect_ratio;
  double max_random_aspect_ratio = 0;
  double min_random_scale = 1, max_random_scale = 1;
  double min_img_size = 0, max_img_size = 1e10;
  int64_t max_random_h = 0, max_random_s = 0, max_random_l = 0;
  double brightness = 0, contrast = 0, saturation = 0, pca_noise = 0;
  double max_random_contrast = 0, max_random_illumination = 0;
  // Bundles of the above. Resolved: what they stand for is there.
  int64_t aug_level = 0;  // 0: off
  bool imagenet_augmentation = false;
  bool benchmark = false;   // synthetic data
  int64_t num_batches = 0;  // synthetic batches per worker and epoch; 0: a default
};

// Section 9. Resolved: lr_factor has a value and at most one companion is set (no companion: the rate is constant, and
// lr_factor is 1), so base, factor, step_epochs and every_epochs of a schedule can be read off.
struct OptimizerFlags {
  std::string optimizer = "sgd";
  double lr = 0.1;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  double clip_gradient = 0;  // 0: off
  std::optional<double> lr_factor;
  std::vector<double> lr_step_epochs;
  double lr_factor_epoch = 0;  // 0: none
  OnNan on_nan = OnNan::kFail;
};

inline constexpr double kLossScaleMax = 1 << 24;

struct JobFlags {
  int64_t num_workers = 1;
  int64_t num_servers = 0;  // 0: a store without servers
  SchemeFlags scheme;
  std::string dtype = "float32";
  std::string loss_scale = "auto";  // resolved: "dynamic", "none" or a number
  NetworkFlags network;
  AugmentFlags augment;
  int64_t batch_size = 128;  // per worker
  int64_t num_epochs = 100;
  OptimizerFlags optimizer;
  std::vector<int64_t> top_k;     // metrics are summed over the workers: all must have the same ones
  std::vector<std::string> loss;  // "ce", "nll"
  std::optional<uint64_t> seed;   // nothing: drawn by the scheduler
};

// Of the process: may differ. Section 3, and the files of section 4.
struct LaunchFlags {
  std::string launcher = "local";  // resolved: "ssh" with a host file where none is given
  std::string hostfile;            // empty: none
  HostOrder host_order = HostOrder::kSpread;
  Role role = Role::kNone;
  std::string scheduler;  // HOST:PORT; empty: none given
  std::optional<int64_t> rank;
  std::string advertise, bind;            // own address and the one to listen on; empty: chosen automatically
  std::vector<std::string> interfaces;    // the first one that a host has; empty: by route
  int64_t port = 0;                       // 0: a free one
  int64_t port_first = 0, port_last = 0;  // --port-range; 0: none
  std::string token_file;
  std::string token;     // DTRAIN_TOKEN; never printed, in no command line
  std::string terminal;  // TERM: the kind of terminal that stderr may be
  bool insecure = false;
  std::string tls_cert, tls_key, tls_ca;
  bool allow_mixed_builds = false;
  bool dry_run = false;
  std::string groups_file = "groups", data_sharding_file = "data_sharding";  // read by the scheduler alone
  std::string trace_events;                                                  // empty: none is written
  std::string config, preset;
  std::vector<std::string> env, env_server, env_worker;  // "NAME=value" or "NAME"; of started processes
  std::string env_file;
  std::string sync_dst_dir;  // empty: nothing is copied
  std::vector<std::string> exclude;
  std::string run_dir;     // empty: default_run_dir
  bool overwrite = false;  // the run that run_dir holds is removed
  std::string cache_dir;   // of what was found out about this machine's devices; empty: none is kept
  int64_t verbose = 0;
  int64_t threads = 0;     // of this role; 0: its part of the host's cores
  int64_t host_roles = 0;  // DTRAIN_HOST_ROLES: servers and workers on this host; 0: nobody says
};

// Section 5.
struct WireFlags {
  std::chrono::milliseconds heartbeat_interval{2000}, heartbeat_timeout{10000};
  std::chrono::milliseconds start_timeout{300000};
  std::chrono::milliseconds scheduler_grace{30000};
  std::string on_worker_loss = "fail";
  Inject inject;
};

// Section 6.
struct DeviceFlags {
  std::vector<int64_t> gpus;           // their numbers; empty: CPU devices
  int64_t cpus = 1;                    // how many, without GPUs
  std::vector<double> work_load_list;  // a number a device; empty: all the same
  bool tf32 = false;
  [[nodiscard]] int64_t count() const { return gpus.empty() ? cpus : static_cast<int64_t>(gpus.size()); }
  bool winograd = true;
  std::string check;  // "reference" or empty
};

// Section 8, the rest.
struct DataFlags {
  std::string data_dir, data_train, data_val, data_train_idx, data_val_idx;  // empty: the data set's files in data_dir
  int64_t data_threads = 0;                                                  // 0: its part of LaunchFlags::threads
  int64_t prefetch_buffer = 4;
  std::string mean_img;  // empty: none
  int64_t max_bad_records = 100;
};

// Section 10.
struct LoopFlags {
  std::string model_prefix, save_model_prefix;  // empty: <run-dir>/<network>; as model_prefix
  std::optional<int64_t> load_epoch;
  std::string resume;                       // "auto", a run directory, or empty
  int64_t save_period = 1;                  // epochs; 0: never
  std::chrono::milliseconds save_every{0};  // 0: off
  bool save_optimizer_states = true;
  int64_t disp_batches = 20;
  LogFormat log_format = LogFormat::kNew;
  std::string log_file;    // empty: none
  double log_time_to = 0;  // accuracy; 0: off
  bool retrain = false;    // MXNet-G's spelling: resolved into load_epoch and resume
  std::optional<int64_t> model_load_epoch;
};

// Where a flag's value came from, the strongest last.
enum class Source { kDefault, kEnvironment, kPreset, kConfig, kResumed, kCommandLine };

struct Flags {
  JobFlags job;
  LaunchFlags launch;
  WireFlags wire;
  DeviceFlags device;
  DataFlags data;
  LoopFlags loop;
  std::map<std::string, Source, std::less<>> sources;  // by name without dashes ("batch-size"); absent: kDefault

  [[nodiscard]] Source source(std::string_view name) const;
  [[nodiscard]] bool given(std::string_view name) const { return source(name) != Source::kDefault; }
  // More than one process: this one has a role, or is to start the others.
  [[nodiscard]] bool distributed() const {
    return launch.role != Role::kNone || job.num_servers > 0 || job.num_workers > 1;
  }
};

// The value of an environment variable, or nothing. Only cmd reads the real one.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

struct Parsed {
  Flags flags;
  bool help = false;  // --help or --version was asked for: flags are then not checked
  bool version = false;
  std::vector<std::string> notes;  // lines for the user: hints, and variables that this version does not follow
};

// Reads the flags of `dtrain [train]`: the command line (without program name and sub-command), --config, --preset, the
// environment, defaults, in this order. Code::kUsage names the nearest flag, the replacement or the values that exist;
// kDevice for --gpus where there is none.
Result<Parsed> parse_flags(const std::vector<std::string>& arguments, const Environment& environment);

// A command line without the flags of these names (as in the table, without dashes) and their values.
std::vector<std::string> without_flags(const std::vector<std::string>& arguments,
                                       const std::vector<std::string>& names);

// The text of --help: all flags with their defaults, grouped by section.
std::string help_text();

// The flags that differ from their defaults, as "name=value, name=value": the log's "start with arguments ...".
std::string describe(const Flags& flags);

// The store that the job uses.
Store store_of(const JobFlags& flags);

// "runs/<network>-<UTC time>".
std::string default_run_dir(const Flags& flags, std::chrono::system_clock::time_point now);

}  // namespace dtrain::job
