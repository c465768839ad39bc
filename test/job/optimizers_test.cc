#include "job/flags/optimizers.h"

#include "job/parse.h"
#include "support/catch.h"

namespace dtrain::job {

using Catch::Matchers::Contains;

TEST_CASE("an optimizer has its own default rate, and refuses flags that it does not use", "[job]") {
  CHECK(parsed({"--optimizer", "adam", "--network", "lenet", "--data-dir", "."}).job.optimizer.lr == 0.001);
  CHECK(parsed({"--optimizer", "adam", "--lr", ".01"}).job.optimizer.lr == 0.01);
  CHECK(parsed({"--preset", "mnist", "--optimizer", "adam"}).job.optimizer.lr == 0.05);
  CHECK_THAT(refused({"--optimizer", "adam", "--mom", ".8"}),
             Contains("--mom 0.8 has no effect with --optimizer adam"));
  CHECK(parsed({"--optimizer", "signum", "--mom", ".8"}).job.optimizer.momentum == 0.8);
  CHECK_THAT(refused({"--optimizer", "adadelta", "--lr", ".1"}), Contains("--lr has no effect"));
  CHECK_THAT(refused({"--optimizer", "adadelta", "--lr-scheduler", "cosine"}),
             Contains("--lr-scheduler has no effect"));
  const OptimizerFlags adadelta = parsed({"--preset", "mnist", "--optimizer", "adadelta"}).job.optimizer;
  CHECK(adadelta.lr == 1);
  CHECK(adadelta.lr_step_epochs.empty());
}

TEST_CASE("an optimizer's parameters are checked with the flag", "[job]") {
  const OptimizerFlags flags = parsed({"--optimizer", "rmsprop(centered=1,gamma1=0.95)"}).job.optimizer;
  CHECK(flags.optimizer == "rmsprop(centered=1,gamma1=0.95)");
  CHECK(flags.lr == 0.001);
  CHECK(parsed({"--optimizer", "adam()"}).job.optimizer.optimizer == "adam()");
  CHECK_THAT(refused({"--optimizer", "adam(,)"}), Contains("is not a parameter of adam"));
  CHECK_THAT(refused({"--optimizer", "rmsprop(centered=1)", "--mom", ".8"}), Contains("--mom 0.8 has no effect"));
  CHECK_THAT(refused({"--optimizer", "adadelta(rho=.8)", "--lr", ".1"}), Contains("--lr has no effect"));
  CHECK_THAT(refused({"--optimizer", "adma(beta1=.9)"}), Contains("did you mean 'adam'?"));
  CHECK_THAT(refused({"--optimizer", "adam(beta=.9)"}), Contains("use beta1=X, beta2=X, epsilon=X"));
  CHECK_THAT(refused({"--optimizer", "adam(beta1)"}), Contains("is not a parameter of adam"));
  CHECK_THAT(refused({"--optimizer", "sgd(beta1=.9)"}), Contains("sgd takes no parameters"));
  CHECK_THAT(refused({"--optimizer", "adam(beta1=.9,beta1=.8)"}), Contains("beta1 is given twice"));
  CHECK_THAT(refused({"--optimizer", "adam(beta1=.9"}), Contains("must have the form NAME or NAME(PARAMETER=X,...)"));
  CHECK_THAT(refused({"--optimizer", "rmsprop(centered=.5)"}), Contains("centered must be 0 or 1"));
  CHECK_THAT(refused({"--optimizer", "lbsgd(batch_scale=2)"}), Contains("lbsgd takes no parameters"));
  for (const char* value : {"1", "-.1", "nan", "x", ""}) {
    CHECK_THAT(refused({"--optimizer", std::string("adam(beta1=") + value + ")"}), Contains("beta1 must be a number"));
  }
}

TEST_CASE("the flags of lbsgd are only for it, except their defaults", "[job]") {
  const OptimizerFlags large = parsed({"--optimizer", "lbsgd", "--macrobatch-size", "4096", "--warmup-epochs", "2.5",
                                       "--warmup-strategy", "sqrt", "--batch-size", "1000"})
                                   .job.optimizer;
  CHECK(large.macrobatch_size == 4096);
  CHECK(large.warmup_epochs == 2.5);
  CHECK(large.warmup_strategy == WarmupStrategy::kSqrt);
  parsed({"--macrobatch-size=0", "--warmup-epochs=5", "--warmup-strategy=linear"});
  CHECK_THAT(refused({"--macrobatch-size", "4096"}), Contains("--macrobatch-size is only for --optimizer lbsgd"));
  CHECK_THAT(refused({"--warmup-epochs", "2", "--optimizer", "adam"}),
             Contains("for other optimizers use --lr-warmup-epochs"));
  CHECK_THAT(refused({"--warmup-strategy", "sqrt"}), Contains("--warmup-strategy is only for"));
  CHECK_THAT(refused({"--optimizer", "lbsgd", "--warmup-strategy", "quadratic"}), Contains("linear, power2, sqrt"));
  const std::vector<std::string> lars = {"--optimizer", "lbsgd", "--warmup-strategy", "lars"};
  CHECK(store_of(parsed(lars).job).update == Update::kWorker);
  CHECK(store_of(parsed({"-n", "2", "--optimizer", "lbsgd"}).job).update == Update::kStore);
  std::vector<std::string> apart = lars;
  apart.insert(apart.end(), {"-n", "2", "--kv-store", "dist_async"});
  CHECK_THAT(refused(apart), Contains("--warmup-strategy lars needs the norms"));
}

}  // namespace dtrain::job
