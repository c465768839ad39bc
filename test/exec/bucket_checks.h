// How an executor waits for the weights of each bucket and announces its gradients. The tests of every backend make
// these checks with executors that they compile.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include "cases.h"
#include "exec/contract.h"
#include "graph/models/models.h"
#include "support/catch.h"

namespace dtrain::exec::test {

// An executor for the network of the check, with these options. It shares the weights of `weights_of` unless that is
// null.
using Compile = std::function<std::unique_ptr<Executor>(const Options& options, Executor* weights_of)>;

inline Case three_convolutions(int64_t batch) {
  return {.name = "", .graph = graph::build_model({.network = "3conv"}).value(), .image = {3, 28, 28}, .batch = batch};
}

// For a training of three_convolutions().
inline Options bucket_options(int64_t batch, std::vector<size_t> bucket_begin) {
  return {.batch_size = batch, .inputs = {{.shape = {3, 28, 28}}}, .bucket_begin = std::move(bucket_begin)};
}

// Every bucket is awaited once, in ascending order, and announced once, in descending order, however the parameters are
// divided into two or three buckets. The begins of buckets advance by these steps.
inline void check_order_of_buckets(const Case& c, size_t first_step, size_t second_step, const Compile& compile) {
  const size_t count = graph::infer_shapes(c.graph, c.image)->parameters.size();
  for (size_t first = 1; first < count; first += first_step) {
    for (size_t second = first; second < count; second += second_step) {
      std::vector<size_t> begin{0, first};
      if (second > first) begin.push_back(second);
      INFO("buckets begin at 0, " << first << ", " << second);
      const auto executor = compile(bucket_options(c.batch, begin), nullptr);
      fill_parameters(executor->parameters(), Values::kFloats, 1);
      const HostBatch batch = make_batch(c, Values::kFloats, 1);
      std::vector<size_t> awaited, announced;
      REQUIRE(executor->forward(batch.view(), [&](size_t b) -> Result<> { return awaited.push_back(b), Result<>{}; }));
      REQUIRE(executor->backward([&](size_t b) -> Result<> { return announced.push_back(b), Result<>{}; }));
      std::vector<size_t> ascending(begin.size());
      std::iota(ascending.begin(), ascending.end(), 0);
      CHECK(awaited == ascending);
      CHECK(announced == std::vector<size_t>(ascending.rbegin(), ascending.rend()));
    }
  }
}

// Weights arrive only when their bucket is awaited; weights and gradients are overwritten as soon as it is announced,
// and the batch when forward has returned. The results must equal those of an undisturbed run. So nothing is read
// before its wait or after its announcement, and an announced gradient is complete.
inline void check_lent_weights(const Case& c, const Options& options, const Compile& compile) {
  const std::vector<size_t>& begin = options.bucket_begin;
  const auto plain = compile(options, nullptr), lent = compile(options, nullptr);
  fill_parameters(plain->parameters(), Values::kFloats, 7);
  fill_parameters(lent->parameters(), Values::kFloats, 7);
  const auto& truth = plain->parameters().parameters;
  const auto& borrowed = lent->parameters().parameters;
  const auto for_bucket = [&](size_t bucket, const auto& visit) {
    const size_t end = bucket + 1 < begin.size() ? begin[bucket + 1] : truth.size();
    for (size_t p = begin[bucket]; p < end; p++) visit(p);
  };
  const auto spoil = [](std::span<float> values) { std::fill(values.begin(), values.end(), 1e30f); };
  for (const auto& parameter : borrowed) spoil(parameter.weight);

  std::map<size_t, std::vector<float>> gradients;
  for (const uint64_t seed : {1, 2, 3}) {
    HostBatch batch = make_batch(c, Values::kFloats, seed);
    REQUIRE(plain->forward(batch.view(), no_wait));
    REQUIRE(plain->backward(no_wait));
    REQUIRE(lent->forward(batch.view(), [&](size_t bucket) -> Result<> {
      for_bucket(bucket, [&](size_t p) {
        std::copy(truth[p].weight.begin(), truth[p].weight.end(), borrowed[p].weight.begin());
      });
      return {};
    }));
    spoil(batch.data);
    REQUIRE(lent->backward([&](size_t bucket) -> Result<> {
      for_bucket(bucket, [&](size_t p) {
        gradients[p].assign(borrowed[p].gradient.begin(), borrowed[p].gradient.end());
        spoil(borrowed[p].weight);
        spoil(borrowed[p].gradient);
      });
      return {};
    }));
    for (size_t p = 0; p < truth.size(); p++) {
      INFO(truth[p].name << " with seed " << seed);
      CHECK(std::equal(truth[p].gradient.begin(), truth[p].gradient.end(), gradients[p].begin()));
    }
  }
}

// An error of a wait or an announcement ends the pass, and the executor can be used again.
inline void check_errors_of_buckets(const Case& c, const Compile& compile) {
  const auto executor = compile(bucket_options(c.batch, {0, 5}), nullptr);
  const HostBatch batch = make_batch(c, Values::kFloats, 1);
  const auto lost = [](size_t bucket) -> Result<> {
    if (bucket == 1) return fail(Code::kPeerLost, "server 1 went silent");
    return {};
  };
  CHECK(executor->forward(batch.view(), lost).error().code == Code::kPeerLost);
  REQUIRE(executor->forward(batch.view(), no_wait));
  CHECK(executor->backward(lost).error().code == Code::kPeerLost);
  CHECK(executor->forward(batch.view(), no_wait));
}

// An executor for inference made with weights_of uses new weights and moving statistics at once.
inline void check_shared_weights(const Case& c, const Compile& compile) {
  const auto training = compile(bucket_options(c.batch, {0, 5}), nullptr);
  Options options = bucket_options(c.batch, {0});
  options.purpose = Options::Purpose::kInference;
  const auto inference = compile(options, training.get()), alone = compile(options, nullptr);
  CHECK(inference->parameters().parameters[0].gradient.empty());
  for (const uint64_t seed : {1, 2, 3}) {
    const HostBatch batch = make_batch(c, Values::kFloats, seed);
    fill_parameters(training->parameters(), Values::kFloats, seed);
    REQUIRE(training->forward(batch.view(), no_wait));  // changes the statistics
    const ParameterView &from = training->parameters(), &to = alone->parameters();
    for (size_t i = 0; i < from.parameters.size(); i++)
      std::ranges::copy(from.parameters[i].weight, to.parameters[i].weight.begin());
    for (size_t i = 0; i < from.statistics.size(); i++)
      std::ranges::copy(from.statistics[i].weight, to.statistics[i].weight.begin());
    REQUIRE(inference->forward(Batch::of(batch.data), no_wait));
    REQUIRE(alone->forward(Batch::of(batch.data), no_wait));
    CHECK(std::ranges::equal(inference->result(0), alone->result(0)));
  }
}

}  // namespace dtrain::exec::test
