#include "role/worker/loading.h"

#include <utility>

#include "data/records/share.h"
#include "role/setup/shares.h"
#include "role/setup/threads.h"

namespace dtrain::role {

data::LoaderOptions training_loading(const job::Flags& flags, const job::JobSpec& spec, const data::Dataset& data,
                                     std::vector<data::BatchLabel> labels, uint32_t rank) {
  const job::JobFlags& job = spec.flags;
  data::LoaderOptions options;
  options.share = share_of(spec, rank, 0);
  if (job.scheme.resplit_every > 0) {
    options.share_in = [spec, rank](int64_t pass) { return share_of(spec, rank, pass); };
  }
  options.batch_size = job.batch_size;
  options.batches = spec.batches[rank];
  options.labels = std::move(labels);
  options.shuffle = job.augment.shuffle && !job.augment.benchmark;
  options.shuffle_chunk_bytes = job.augment.shuffle_chunk << 20;
  options.seed = job.seed.value();
  const ThreadPlan threads = plan_threads(flags);
  options.threads = threads.decode;
  options.threads_max = threads.decode_max;
  options.pixels = data.normalisation() != nullptr;
  options.prefetch = flags.data.prefetch_buffer;
  options.max_bad_records = flags.data.max_bad_records;
  return options;
}

data::LoaderOptions validation_loading(data::LoaderOptions training, const job::JobSpec& spec,
                                       const data::Dataset& data, uint32_t rank) {
  data::LoaderOptions options = std::move(training);
  options.mode = data::LoaderOptions::Mode::kValidation;
  options.share = data::equal_share(data.size(), rank, spec.flags.num_workers);
  options.share_in = nullptr;
  options.batches = 0;
  options.shuffle = false;
  options.pixels = data.normalisation() != nullptr;
  return options;
}

}  // namespace dtrain::role
