#include "tool_runs.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "base/file.h"
#include "data/make_images.h"
#include "requests.h"
#include "support/must.h"
#include "support/process.h"
#include "support/temp_dir.h"
#include "sync/small_event_log.h"

namespace dtrain::test {

namespace fs = std::filesystem;
using bench::BenchInputOptions, bench::BenchKvOptions, bench::BenchTrainOptions, dataset::DataGetOptions;

// clang-format off
DT_DUMPED(BenchTrainOptions, network, batch_size, image, num_classes, phase, num_batches, num_warmup_batches, threads, gpu, device_module, dtype, tf32, winograd, bound, profile)
DT_DUMPED(BenchKvOptions, workers, servers, devices, store, shapes, num_batches, disp_batches, test_results, optimizer, processes)
DT_DUMPED(BenchInputOptions, num_batches, num_warmup_batches, form)
DT_DUMPED(DataGetOptions, out, url, checks, resize, val_resize, quality, threads, attempts, first_pause, stop)
// clang-format on

namespace {

// ---- The inputs

void put(const std::string& path, const std::string& text) {
  must(make_directories(fs::path(path).parent_path().string()));
  must(write_file_atomic(path, text));
}

void put_image(const std::string& path, int height, int width, int seed) {
  const auto bytes = must(images::encode_image(gradient_image(height, width, 3, seed), fs::path(path).extension(), 90));
  put(path, std::string(bytes.begin(), bytes.end()));
}

void make_images(const std::string& dir) {
  for (int i = 0; i < 6; i++) put_image(fmt::format("{}/images/{}.{}", dir, i, i % 2 == 0 ? "png" : "jpg"), 20, 30, i);
  for (int i = 0; i < 4; i++) {
    put_image(fmt::format("{}/images/cat/{}.png", dir, i), 20, 30, 10 + i);
    put_image(fmt::format("{}/images/dog/{}.png", dir, i), 20, 30, 20 + i);
  }
  put(dir + "/two-labels.lst", "0\t1\t2\t0.png\n1\t3\t4\t1.jpg\n2\t5\t6\t2.png\n");
  put(dir + "/blanks.lst", "0 1 2 0.png\n1 3 4 1.jpg\n");
  put(dir + "/a.png", must(read_file(dir + "/images/0.png")));
  put(dir + "/broken.jpg", "not an image");
  std::string cut = must(read_file(dir + "/images/1.jpg"));
  cut.resize(cut.size() / 2);
  put(dir + "/cut/1.jpg", cut);
  put(dir + "/cut.lst", "0\t1\t1.jpg\n");
  must_run({DTRAIN_EXE, "im2rec", "cut.lst", "cut", "cut.rec", "unchanged=1"}, dir);
}

// A data set, the run that was trained on it, and a mean image.
void make_run(const std::string& dir) {
  must_run({DTRAIN_EXE, "data", "synth", "--out", "data", "--count", "32", "--size", "28", "--classes", "4"}, dir);
  std::vector<std::string> training = {DTRAIN_EXE, "--network",     "resnet",  "--num-layers",   "8",  "--data-dir",
                                       "data",     "--seed",        "1",       "--num-classes",  "4",  "--num-epochs",
                                       "2",        "--threads",     "1",       "--disp-batches", "1",  "--batch-size",
                                       "8",        "--image-shape", "3,28,28", "--loss",         "ce", "--run-dir"};
  training.emplace_back("run");
  must_run(training, dir);
  training.back() = "run-with-mean";
  training.insert(training.end(), {"--mean-img", "mean.bin", "--num-epochs", "1"});
  must_run(training, dir);
  // The index of two of the validation records.
  std::istringstream index(must(read_file(dir + "/data/test.idx")));
  std::string text;
  for (std::string line; std::getline(index, line) && std::ranges::count(text, '\n') < 2;) text += line + "\n";
  put(dir + "/short.idx", text);
  put(dir + "/synset.txt", "one\ntwo\nthree\nfour\n");
}

// Validation records of which one has no image.
void make_broken_records(const std::string& dir) {
  std::vector<uint8_t> file = read_bytes(dir + "/data/test.rec");
  const std::string broken = "not an image";
  must(data::append_record(file,
                           image_payload(99, 1, {reinterpret_cast<const uint8_t*>(broken.data()), broken.size()})));
  write_bytes(dir + "/broken.rec", file);
  must_run({DTRAIN_EXE, "data", "index", "broken.rec"}, dir);
}

// The archive of CIFAR-10 with a few images.
void make_published(const std::string& dir) {
  const std::string image = std::string(1, '\3') + std::string(3072, '\x40');
  const std::string directory = dir + "/cifar-10-batches-bin/";
  for (int i = 1; i <= 5; i++) put(fmt::format("{}data_batch_{}.bin", directory, i), image);
  put(directory + "test_batch.bin", image);
  must(make_directories(dir + "/published"));
  must_run({"tar", "-czf", "published/cifar-10-binary.tar.gz", "cifar-10-batches-bin"}, dir);
}

// Workers with 100, 95, 40 and 38 samples/s.
void make_speed_logs(const std::string& dir) {
  int rank = 0;
  for (const int speed : {100, 95, 40, 38}) {
    std::string log;
    for (const int batch : {20, 40}) {
      log += fmt::format("Node[{}] Epoch[0] Batch [{}]\tSpeed: {} samples/sec\n", rank, batch, speed);
    }
    put(fmt::format("{}/worker-{}.log", dir, rank++), log);
  }
}

// ---- What a run left

const std::regex& numbers() {
  static const std::regex expression(R"([0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?)");
  return expression;
}

std::string masked(const std::string& text) {
  return std::regex_replace(text, numbers(), "#");
}

// Without the note that depends on the number of cores, and without lines of progress, which a slow host gets more
// of.
std::string masked_messages(const std::string& messages) {
  std::istringstream lines(messages);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const bool is_progress = line.find(" %  ") != std::string::npos;
    if (!is_progress && !line.starts_with("note: --threads ")) kept += masked(line) + "\n";
  }
  return kept;
}

// Without the time in the names of run directories.
std::string without_time(const std::string& text) {
  static const std::regex time("[0-9]{8}-[0-9]{6}");
  return std::regex_replace(text, time, "TIME");
}

// Keys of JSON whose values are measured.
bool is_measured(const std::string& key) {
  static const std::set<std::string> keys = {"samples_per_s",
                                             "peak_rss_bytes",
                                             "bound",
                                             "profile",
                                             "ms",
                                             "gb_per_s",
                                             "small_key_us",
                                             "proto_bytes_ms",
                                             "server_cpu_ms",
                                             "server_extra_bytes",
                                             "images_per_s",
                                             "ms_per_image",
                                             "images_per_s_per_thread",
                                             "error",
                                             "images_per_cpu_s"};
  return keys.contains(key);
}

// Elements of an array have the name of the array.
void add_json(const nlohmann::json& value, const std::string& name, Products& to) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, member] : value.items()) {
      if (is_measured(key))
        to[name + "." + key] = "measured";
      else
        add_json(member, name + "." + key, to);
    }
  } else if (value.is_array() && !value.empty()) {
    for (const nlohmann::json& element : value) add_json(element, name, to);
  } else {
    to[name] += value.dump() + "\n";
  }
}

// Whether each line is an object of JSON. Then it adds its keys.
bool add_json_lines(const std::string& text, Products& to) {
  Products keys;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) return false;
    add_json(json, "json", keys);
  }
  to.insert(keys.begin(), keys.end());
  return !keys.empty();
}

template <class Options>
void add_options(const Result<Options>& options, Products& to) {
  if (options) dump(to, "request", *options);
}

void add_request(const std::vector<std::string>& words, Products& to) {
  const auto no_variables = [](const std::string&) { return std::optional<std::string>(); };
  const cmd::Call call{{words.begin() + 2, words.end()}, no_variables, nullptr};
  const std::string tool = words[0] + " " + words[1];
  if (tool == "bench train") add_options(cmd::bench_train_request(call), to);
  if (tool == "bench kv") add_options(cmd::bench_kv_request(call), to);
  if (tool == "bench input") add_options(cmd::bench_input_request(call), to);
  if (tool == "data get") add_options(cmd::data_get_request(call), to);
}

// These start as many threads in every run with the same flags.
bool starts_same_threads(const std::string& tool) {
  return tool == "im2rec" || tool == "predict" || tool == "score";
}

// What a tool prints has numbers that it has measured.
bool prints_measured(const std::string& tool) {
  return tool == "doctor" || tool == "bench" || tool == "score";
}

// The tool starts a job, whose processes write their messages in any order, and prints what they measured.
bool starts_job(const std::vector<std::string>& words) {
  return words[0] == "plan" && std::ranges::find(words, "--from-log") == words.end();
}

// The times of a run are in its logs.
bool has_times(const fs::path& file) {
  return file.extension() == ".log" || file.extension() == ".jsonl";
}

std::string sum_of_lines(const std::string& text) {
  std::istringstream lines(text);
  int64_t sum = 0;
  for (int64_t number = 0; lines >> number;) sum += number;
  return std::to_string(sum);
}

}  // namespace

void make_inputs(const std::string& dir) {
  make_images(dir);
  make_run(dir);
  make_broken_records(dir);
  make_published(dir);
  put(dir + "/trace", small_event_log());
  make_speed_logs(dir + "/logs");
  put(dir + "/shapes", "a 300 20\nb 50\n");
  put(dir + "/speeds", "80 80 240\n");
  put(dir + "/groups", "#0 #1 #2\n#3\n");
  put(dir + "/hosts", "10.1.0.1\n");
  put(dir + "/token", "0123456789abcdef0123456789abcdef\n");
  put(dir + "/dlbs.json", R"({"parameters": {"exp.replica_batch": 7}})");
  put(dir + "/bin/ssh", "#!/bin/sh\necho \"$@\" >> ssh-calls\n");  // into the directory of the run
  fs::permissions(dir + "/bin/ssh", fs::perms::owner_all);
}

ToolRun run_tool(const std::vector<std::string>& words, const std::string& inputs) {
  const TempDir dir, output;
  // So little memory that an absurd batch does not fit, on every host.
  std::vector<std::string> command = {
      "/bin/sh", "-c",          R"(ulimit -v 33554432; out=$1; shift; exec "$@" >"$out/stdout" 2>"$out/stderr")",
      "sh",      output.path(), DTRAIN_EXE};
  command.insert(command.end(), words.begin(), words.end());
  const std::string path = std::getenv("PATH") == nullptr ? "/usr/bin:/bin" : std::getenv("PATH");
  const Ended ended =
      run(command, {.deadline_s = 60,
                    .directory = dir.path(),
                    .environment = {"DMLC_ROLE", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER", "DTRAIN_TOKEN", "TERM=dumb",
                                    "PATH=" + inputs + "/bin:" + path, "XDG_STATE_HOME=" + inputs + "/state",
                                    "TMPDIR=" + inputs + "/none", "LD_PRELOAD=" DTRAIN_COUNT_THREADS,
                                    "DTRAIN_TEST_THREADS=" + output.path("threads")}});
  ToolRun tool;
  tool.succeeded = ended.code == 0;
  tool.seen["exit code"] = std::to_string(ended.code);
  const std::string printed = read_file(output.path("stdout")).value_or(""),
                    messages = read_file(output.path("stderr")).value_or("");
  tool.output = printed + messages + ended.output;
  if (!starts_job(words)) {
    if (!add_json_lines(printed, tool.seen)) {
      tool.seen["stdout"] = prints_measured(words[0]) ? masked(printed) : printed;
    }
    tool.seen["stderr"] = masked_messages(messages);
  }
  if (starts_same_threads(words[0]))
    tool.seen["threads"] = sum_of_lines(read_file(output.path("threads")).value_or(""));
  for (const auto& file : fs::recursive_directory_iterator(dir.path())) {
    if (!file.is_regular_file()) continue;
    const std::string name = without_time(fs::relative(file.path(), dir.path()).string());
    tool.seen["file " + name] = has_times(file) ? "" : without_time(must(read_file(file.path().string())));
  }
  if (words.size() > 1) add_request(words, tool.seen);
  return tool;
}

}  // namespace dtrain::test
