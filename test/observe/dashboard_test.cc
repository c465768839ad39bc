// The dashboard and the alert rules in configs/ ask for metrics that exist, by names that the endpoint gives them.
#include <regex>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "support/catch.h"
#include "telemetry/catalogue.h"

using namespace dtrain;
using namespace dtrain::telemetry;

namespace {

// The names of all series: a counter's ends with _total, a histogram has three.
std::set<std::string> series_names() {
  std::set<std::string> names;
  for (const MetricInfo& info : catalogue()) {
    const std::string name = open_metrics_name(info);
    if (info.kind == Kind::kCounter) names.insert(name + "_total");
    if (info.kind == Kind::kGauge) names.insert(name);
    if (info.kind == Kind::kHistogram) names.insert({name + "_bucket", name + "_sum", name + "_count"});
  }
  return names;
}

// The words of the text that begin as metrics do.
std::set<std::string> asked_for(const std::string& text) {
  static const std::regex kName("\\bdtrain_[a-z0-9_]+");
  std::set<std::string> names;
  for (std::sregex_iterator at(text.begin(), text.end(), kName), end; at != end; ++at) names.insert(at->str());
  return names;
}

void check_names(const std::string& text, size_t at_least) {
  const std::set<std::string> exist = series_names(), asked = asked_for(text);
  CHECK(asked.size() >= at_least);
  for (const std::string& name : asked) {
    INFO(name);
    CHECK(exist.count(name) == 1);
  }
}

std::string config(const std::string& name) {
  const Result<std::string> text = read_file(std::string(DTRAIN_CONFIGS) + "/" + name);
  REQUIRE(text);
  return *text;
}

}  // namespace

TEST_CASE("the dashboard asks for metrics that exist", "[observe]") {
  const auto dashboard = parse_json(config("grafana/dtrain.json"));
  REQUIRE(dashboard.is_object());
  std::string expressions;
  std::set<int> ids;
  for (const auto& panel : dashboard["panels"]) {
    CHECK(ids.insert(panel["id"].get<int>()).second);
    CHECK_FALSE(panel["title"].get<std::string>().empty());
    for (const auto& target : panel["targets"]) expressions += target["expr"].get<std::string>() + "\n";
  }
  check_names(expressions, 20);
}

TEST_CASE("the alert rules ask for metrics that exist", "[observe]") {
  std::string expressions;
  const std::string rules = config("prometheus/dtrain.rules.yml");
  for (size_t at = rules.find("expr: "); at != std::string::npos; at = rules.find("expr: ", at + 1)) {
    expressions += rules.substr(at, rules.find('\n', at) - at) + "\n";
  }
  check_names(expressions, 10);
}
