#include "observe/open_metrics.h"

#include <limits>

#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::observe;
using telemetry::Metric;
using telemetry::Registry;

TEST_CASE("the text of metrics is OpenMetrics", "[observe]") {
  Registry worker, server;
  worker.set(Metric::kTrainAccuracy, 0.25);
  worker.set(Metric::kDecodeMs, 1.5);
  worker.set(Metric::kTrainCrossEntropy, std::numeric_limits<double>::quiet_NaN());
  worker.cell(Metric::kSentBytes, "server 0").add(12);
  server.cell(Metric::kSentBytes, "worker \"0\"").add(7);
  server.histogram(Metric::kStaleness).observe(2, 3);
  const std::vector<Source> sources = {{"worker", 0, "node1", worker.snapshot()},
                                       {"server", 1, "no\\de", server.snapshot()}};
  const std::string text = open_metrics_text("lenet", sources);
  CHECK(
      text.starts_with("# TYPE dtrain_train_accuracy_ratio gauge\n"
                       "# HELP dtrain_train_accuracy_ratio Share of the training rows that were classified correctly "
                       "in the last window of --disp-batches steps; in the record of an epoch, in the whole epoch.\n"
                       "dtrain_train_accuracy_ratio{job=\"lenet\",role=\"worker\",rank=\"0\",host=\"node1\"} 0.25\n"));
  CHECK_THAT(text, Catch::Contains("rank=\"0\",host=\"node1\"} NaN\n"));
  CHECK_THAT(text, Catch::Contains("# UNIT dtrain_decode_seconds seconds\n"));
  CHECK_THAT(
      text, Catch::Contains("dtrain_decode_seconds{job=\"lenet\",role=\"worker\",rank=\"0\",host=\"node1\"} 0.0015\n"));
  CHECK_THAT(text, Catch::Contains("# TYPE dtrain_sent_bytes counter\n"));
  CHECK_THAT(text, Catch::Contains("dtrain_sent_bytes_total{job=\"lenet\",role=\"worker\",rank=\"0\",host=\"node1\","
                                   "peer=\"server 0\"} 12\n"
                                   "dtrain_sent_bytes_total{job=\"lenet\",role=\"server\",rank=\"1\",host=\"no\\\\de\","
                                   "peer=\"worker \\\"0\\\"\"} 7\n"));
  CHECK_THAT(text, Catch::Contains("le=\"1\"} 0\n"));
  CHECK_THAT(text, Catch::Contains("le=\"2\"} 3\n"));
  CHECK_THAT(text, Catch::Contains("le=\"+Inf\"} 3\n"));
  CHECK_THAT(text,
             Catch::Contains("dtrain_staleness_sum{job=\"lenet\",role=\"server\",rank=\"1\",host=\"no\\\\de\"} 6\n"));
  CHECK(text.ends_with("# EOF\n"));
  CHECK(open_metrics_text("x", {}) == "# EOF\n");

  const std::string older = open_metrics_text("lenet", sources, MetricsForm::kPrometheus);
  CHECK_THAT(older, Catch::Contains("# TYPE dtrain_sent_bytes_total counter\n# HELP dtrain_sent_bytes_total "));
  CHECK_THAT(older, !Catch::Contains("# UNIT") && !Catch::Contains("# EOF"));
}
