#include "bench/input.h"

#include <sys/resource.h>

#include <chrono>

#include "base/host_limits.h"
#include "base/json.h"
#include "images/image.h"
#include "job/flags/flags.h"
#include "role/setup/data.h"
#include "role/setup/network.h"

namespace dtrain::bench {
namespace {

using Clock = std::chrono::steady_clock;

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * time.tv_usec; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

images::Stages operator-(images::Stages a, const images::Stages& b) {
  a += {.images = -b.images,
        .read = -b.read,
        .header = -b.header,
        .decode = -b.decode,
        .color = -b.color,
        .rows = -b.rows};
  return a;
}

int decoder_threads(const job::Flags& flags) {
  if (flags.data.data_threads > 0) return static_cast<int>(flags.data.data_threads);
  if (flags.launch.threads > 0) return static_cast<int>(flags.launch.threads);
  return usable_cores();
}

Result<bool> holds_pixels(const data::Dataset& images, BenchInputOptions::Form form) {
  using Form = BenchInputOptions::Form;
  const bool possible = images.normalisation() != nullptr;
  if (form == Form::kPixels && !possible) {
    return fail(
        Code::kUsage,
        "--form pixels: --max-random-contrast and --max-random-illumination change normalized floats, so batches "
        "cannot hold pixels; leave out these flags, or give --form floats");
  }
  return possible && form != Form::kFloats;
}

data::LoaderOptions loader_options(const job::Flags& flags, const data::Dataset& images, bool pixels) {
  return {.share = {0, images.size()},
          .batch_size = flags.job.batch_size,
          .pixels = pixels,
          .shuffle = flags.job.augment.shuffle,
          .shuffle_chunk_bytes = flags.job.augment.shuffle_chunk << 20,
          .seed = flags.job.seed.value_or(0),
          .threads = decoder_threads(flags),
          .prefetch = flags.data.prefetch_buffer,
          .max_bad_records = flags.data.max_bad_records};
}

double ms_each(double seconds, int64_t count) {
  return count > 0 ? 1e3 * seconds / static_cast<double>(count) : 0;
}

}  // namespace

Result<> BatchConsumer::take(int64_t batches) {
  while (batches > 0) {
    DT_TRY(const data::LoadedBatch* batch, loader_.next());
    if (batch == nullptr) {
      loader_.start(++epoch_);
      taken_ = 0;
    } else {
      batches--;
      taken_++;
    }
  }
  return {};
}

void BatchConsumer::drop_prefetched() {
  loader_.start(epoch_, taken_);
}

Result<BenchInputResult> bench_input(job::Flags flags, const BenchInputOptions& options, const Log& log) {
  if (flags.job.augment.benchmark)
    return fail(Code::kUsage,
                "--benchmark 1: synthetic batches are not read from files; leave out the flag, and name data");
  DT_TRY_VOID(role::complete_flags(flags));
  DT_TRY(const data::DataSets data, role::open_data(flags, 0, log));
  DT_TRY(const bool pixels, holds_pixels(*data.train, options.form));
  const data::LoaderOptions how = loader_options(flags, *data.train, pixels);
  images::use_own_threads_only();
  data::Loader loader(data.train, how, log);
  BatchConsumer consumer(loader);
  DT_TRY_VOID(consumer.take(options.num_warmup_batches));

  const images::Stages before = data.train->stages();
  const double cpu_before = cpu_seconds();
  const Clock::time_point begin = Clock::now();
  // Discards the batches that were read ahead. If this thread gets no core for some time, the loader reads ahead, and a
  // short measurement might find all of its batches ready. Since the counters were read before this call, all batches
  // that are taken from now on are read within the measured time.
  consumer.drop_prefetched();
  DT_TRY_VOID(consumer.take(options.num_batches));
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return BenchInputResult{.source = flags.data.data_train.empty() ? flags.data.data_dir : flags.data.data_train,
                          .pixels = pixels,
                          .images = options.num_batches * how.batch_size,
                          .threads = how.threads,
                          .seconds = seconds,
                          .cpu_seconds = cpu_seconds() - cpu_before,
                          .bad_records = loader.bad_records(),
                          .stages = data.train->stages() - before};
}

const char* BenchInputResult::form() const {
  return pixels ? "pixels" : "floats";
}

std::string BenchInputResult::json() const {
  const auto each = [&](double time) { return ms_each(time, stages.images); };
  const double per_second = static_cast<double>(images) / seconds;
  nlohmann::ordered_json object{{"source", source},
                                {"form", form()},
                                {"images", images},
                                {"threads", threads},
                                {"images_per_s", per_second},
                                {"images_per_s_per_thread", per_second / threads},
                                {"images_per_cpu_s", static_cast<double>(images) / cpu_seconds},
                                {"bad_records", bad_records}};
  object["ms_per_image"] = {{"read", each(stages.read)},
                            {"header", each(stages.header)},
                            {"decode", each(stages.decode)},
                            {"color", each(stages.color)},
                            {"resize_and_store", each(stages.rows)}};
  return json_text(object);
}

std::string BenchInputResult::text() const {
  const auto each = [&](double time) { return ms_each(time, stages.images); };
  const double per_second = static_cast<double>(images) / seconds;
  return fmt::format(
      "{}: {} images, as {}, in {:.2f} s by {} thread{}: {:.0f} images/s, {:.0f} per thread, {:.0f} per CPU second\n"
      "ms per image: read {:.3f}, header {:.3f}, decode {:.3f}, colors {:.3f}, resize and store {:.3f}\n",
      source, images, form(), seconds, threads, threads == 1 ? "" : "s", per_second, per_second / threads,
      static_cast<double>(images) / cpu_seconds, each(stages.read), each(stages.header), each(stages.decode),
      each(stages.color), each(stages.rows));
}

}  // namespace dtrain::bench
