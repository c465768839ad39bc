// Compares the schemes with each other and with results computed by hand: the state machine with sums and an optimizer.
#include <algorithm>
#include <map>
#include <sstream>

#include "audit.h"
#include "optim/optimizer.h"
#include "plan/simulator.h"
#include "support/catch.h"
#include "sync/text.h"

using namespace dtrain;
using namespace dtrain::sync;
using namespace dtrain::plan;

namespace {

// A slice of one weight, as on a server.
class OneWeight {
 public:
  OneWeight(const Policy& policy, double momentum) : machine_(policy), sgd_{.momentum = momentum, .weight_decay = 0} {
    const Group groups = group_count(policy);
    sums_.resize(groups);
    kept_.assign(groups, weight_);
  }

  // Each gradient is 1. The sum is divided by the number of members and, if `divide` is true, by the staleness.
  void push(Worker worker, bool divide) {
    std::vector<Effect> effects;
    machine_.on(Push{worker, machine_.clock(worker)}, effects);
    for (const Effect& effect : effects) {
      if (const auto* add = std::get_if<Add>(&effect)) sums_[add->group] += 1;
      if (const auto* keep = std::get_if<Keep>(&effect)) kept_[keep->group] = weight_;
      if (const auto* apply = std::get_if<Apply>(&effect)) {
        update(sums_[apply->group], divide ? static_cast<double>(apply->staleness) : 1);
        sums_[apply->group] = 0;
      }
    }
  }
  [[nodiscard]] float weight() const { return weight_; }
  // What the worker would get; nullopt if it would wait.
  std::optional<float> pull(Worker worker, Step step) {
    std::vector<Effect> effects;
    machine_.on(Pull{worker, step}, effects);
    if (std::holds_alternative<Park>(effects.back())) return std::nullopt;
    if (std::holds_alternative<Keep>(effects.front())) return weight_;
    return kept_[std::get<Answer>(effects.back()).group];
  }

 private:
  void update(float sum, double staleness) {
    std::span<float> velocity(&velocity_, 1);
    const std::span<const std::span<float>> state(&velocity, sgd_.momentum > 0 ? 1 : 0);
    optim::update(sgd_, {.learning_rate = 0.1, .gradient_scale = 1 / (sum * staleness)}, {&weight_, 1}, {&sum, 1},
                  state);
  }

  Machine machine_;
  optim::OptimizerSpec sgd_;
  float weight_ = 1, velocity_ = 0;
  std::vector<float> sums_, kept_;
};

// The effects of an event log in order, without Keep: schemes keep weights at different times by nature.
std::string without_keeps(const std::string& event_log) {
  std::istringstream lines(event_log);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("slice", 0) != 0 && line.find("keep") == line.npos) text += line + "\n";
  }
  return text;
}

// Lists the version of the weights with which each step was computed.
class Versions final : public Observer {
 public:
  void on_event(double, uint32_t, const Machine& machine, const Event&, std::span<const Effect> effects) override {
    for (const Effect& effect : effects) {
      if (const auto* keep = std::get_if<Keep>(&effect)) kept_[keep->group] = machine.version();
      if (const auto* answer = std::get_if<Answer>(&effect)) sent_.push_back(kept_[answer->group]);
    }
  }
  void on_take(uint32_t, Worker worker, uint64_t number) override { taken_[worker] = sent_.at(number); }
  void on_begin(double ms, Worker worker, Step step) override {
    computed_with += fmt::format("{:.6f}: worker {} step {} version {}\n", ms, worker, step, taken_[worker]);
  }
  std::string computed_with;

 private:
  std::map<Group, uint64_t> kept_;
  std::map<Worker, uint64_t> taken_;
  std::vector<uint64_t> sent_;
};

// The round that each gradient is in.
class Rounds final : public Observer {
 public:
  void on_event(double, uint32_t, const Machine&, const Event& event, std::span<const Effect> effects) override {
    for (const Effect& effect : effects) {
      if (const auto* add = std::get_if<Add>(&effect)) round_of[{add->worker, std::get<Push>(event).step}] = round_;
      if (std::holds_alternative<Apply>(effect)) round_++;
    }
  }
  std::map<std::pair<Worker, Step>, int> round_of;

 private:
  int round_ = 0;
};

struct Run {
  std::string effects, computed_with;
};
Run run_of(const Policy& policy, const NetworkFaults& network_faults, uint64_t seed) {
  INFO(to_text(policy) << ", seed " << seed);
  const Setting setting = {.policy = policy,
                           .steps = 20,
                           .epochs = 2,
                           .step_ms = {1, 2, 3, 4},
                           .jitter = 0.4,
                           .network = {.latency_ms = 0.05, .gbit_per_s = 1, .bytes = 5000},
                           .network_faults = network_faults};
  Audit audit(setting);
  Versions versions;
  Observer* const observers[] = {&audit, &versions};
  audit.finish(simulate(setting, seed, observers));
  REQUIRE(audit.broken == std::vector<std::string>{});
  return {without_keeps(audit.event_log), versions.computed_with};
}

const NetworkFaults kLossy = {
    .faults = {.drop = 0.1, .duplicate = 0.1, .delay_max_ms = 3}, .resend_ms = 3, .resend_max_ms = 12};

}  // namespace

// Group A has two members, B one. The updates of A, B, B, A have staleness Y = 1, 2, 1, 3.
TEST_CASE("gsp divides by members and staleness", "[plan]") {
  const auto weights = [](double momentum) {
    OneWeight server(gsp({0, 0, 1}), momentum);
    std::vector<float> after;
    for (const std::vector<Worker>& group : {std::vector<Worker>{0, 1}, {2}, {2}, {1, 0}}) {
      for (const Worker worker : group) server.push(worker, true);
      after.push_back(server.weight());
    }
    return after;
  };
  const std::vector<double> plain = {0.9, 0.85, 0.75, 0.716667};
  // v <- 0.9 v - 0.1 / Y: -0.1, -0.14, -0.226, -0.236733
  const std::vector<double> with_momentum = {0.9, 0.76, 0.534, 0.297267};
  for (size_t i = 0; i < 4; i++) {
    CHECK(weights(0)[i] == Approx(plain[i]).epsilon(1e-5));
    CHECK(weights(0.9)[i] == Approx(with_momentum[i]).epsilon(1e-5));
  }
}

TEST_CASE("a member's weights do not change while another group updates", "[plan]") {
  OneWeight server(gsp({0, 0, 1}), 0);
  server.push(0, true);
  CHECK(server.pull(0, 1) == std::nullopt);
  server.push(1, true);
  CHECK(server.pull(0, 1) == Approx(0.9f));
  for (int i = 0; i < 3; i++) server.push(2, true);
  CHECK(server.pull(0, 1) == Approx(0.9f));
  CHECK(server.pull(1, 1) == Approx(0.9f));
  CHECK(server.weight() < 0.8f);
}

TEST_CASE("gsp with one group is bsp", "[plan][sim]") {
  for (uint64_t seed = 1; seed <= 50; seed++) {
    for (const NetworkFaults& network_faults : {NetworkFaults{}, kLossy}) {
      const Run one_group = run_of(gsp({0, 0, 0, 0}), network_faults, seed),
                of_bsp = run_of(bsp(4), network_faults, seed);
      INFO("seed " << seed);
      CHECK(one_group.effects == of_bsp.effects);
      CHECK(one_group.computed_with == of_bsp.computed_with);
    }
  }
}

TEST_CASE("gsp with one group per worker is asp for the same order of arrival", "[plan][sim]") {
  for (uint64_t seed = 1; seed <= 50; seed++) {
    const Run own_groups = run_of(gsp({0, 1, 2, 3}), {}, seed), of_asp = run_of(asp(4), {}, seed);
    INFO("seed " << seed);
    CHECK(own_groups.effects == of_asp.effects);
    CHECK(own_groups.computed_with == of_asp.computed_with);
  }
}

TEST_CASE("gsp with a bound and one group per worker is ssp for the same order of arrival", "[plan][sim]") {
  for (uint64_t seed = 1; seed <= 50; seed++) {
    const Run own_groups = run_of(gsp({0, 1, 2, 3}, 2), {}, seed), of_ssp = run_of(ssp(4, 2), {}, seed);
    INFO("seed " << seed);
    CHECK(own_groups.effects == of_ssp.effects);
    CHECK(own_groups.computed_with == of_ssp.computed_with);
  }
}

TEST_CASE("a bound that is never reached changes nothing", "[plan][sim]") {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    // The bound decides how an epoch ends, so only the first steps are equal.
    const Run bound = run_of(ssp(4, 1000), kLossy, seed), of_asp = run_of(asp(4), kLossy, seed);
    const size_t length = std::min(bound.effects.size(), of_asp.effects.size()) / 4;
    CHECK(bound.effects.substr(0, length) == of_asp.effects.substr(0, length));
  }
}

// With the same gradients in each round, the weights after round k have the same bits. Lost, duplicated and delayed
// messages change when a round ends, but not what it contains.
TEST_CASE("bsp applies the same rounds under network faults", "[plan][sim]") {
  Setting setting = {.policy = bsp(4), .steps = 20, .step_ms = {1, 2, 3, 4}, .jitter = 0.4};
  const auto rounds_of = [&](uint64_t seed) {
    Rounds rounds;
    Observer* const observers[] = {&rounds};
    REQUIRE(simulate(setting, seed, observers).all_finished);
    return rounds.round_of;
  };
  const auto undisturbed = rounds_of(1);
  CHECK(undisturbed.size() == 80);
  setting.network_faults = {
      .faults = {.drop = 0.1, .duplicate = 0.1, .delay_max_ms = 50}, .resend_ms = 3, .resend_max_ms = 12};
  for (uint64_t seed = 1; seed <= 50; seed++) CHECK(rounds_of(seed) == undisturbed);
}
