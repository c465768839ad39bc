#include "cluster/kubernetes_files.h"

#include <algorithm>
#include <cctype>

#include "base/json.h"
#include "job/flags/flags.h"
#include "launch/command.h"

namespace dtrain::cluster {
namespace {

constexpr size_t kLabelMax = 50;  // pods are named LABEL-NUMBER-RANDOM, and a DNS label has at most 63 characters
constexpr int64_t kKeepSeconds = 86400;  // after this time a finished Job that nobody deletes is removed

struct Volume {
  std::string claim, path;
};

// Formats a string for YAML, which accepts JSON's format.
std::string quoted_yaml(const std::string& text) {
  return json_text(nlohmann::json(text));
}

std::string indented(const std::string& text, size_t columns) {
  std::string all;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) all += std::string(columns, ' ') + text.substr(at, end - at);
    all += '\n';
    at = end + 1;
  }
  return all;
}

Result<std::optional<Volume>> volume_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const size_t colon = text.find(':');
  if (colon == 0 || colon == std::string::npos || text.compare(colon + 1, 1, "/") != 0 || colon + 2 > text.size()) {
    return fail(Code::kUsage, "--volume {}: give CLAIM:PATH, the name of a PersistentVolumeClaim and an absolute path",
                text);
  }
  return Volume{text.substr(0, colon), text.substr(colon + 1)};
}

Result<> check_kubernetes(const KubernetesSetting& setting) {
  const job::Flags& flags = setting.flags;
  if (flags.batch.image.empty())
    return fail(Code::kUsage, "Kubernetes needs a container image that contains dtrain: give --image IMAGE");
  if (setting.name == dns_label(setting.name)) return {};
  return fail(Code::kUsage,
              "--jobname {}: in Kubernetes, a name must begin with a letter and have at most {} characters, all of "
              "them lower-case letters, digits or '-'",
              setting.name, kLabelMax);
}

std::string metadata_of(const KubernetesSetting& setting, const std::string& indent) {
  return indent + "metadata:\n" + indent + "  name: " + setting.name + "\n" + indent + "  labels:\n" + indent +
         "    app.kubernetes.io/name: dtrain\n" + indent + "    app.kubernetes.io/instance: " + setting.name + "\n";
}

std::string secret_of(const KubernetesSetting& setting) {
  return "# The token that all processes of the job must know.\napiVersion: v1\nkind: Secret\n" +
         metadata_of(setting, "") + "type: Opaque\nstringData:\n  token: " + quoted_yaml(setting.token) + "\n";
}

std::string service_of(const KubernetesSetting& setting) {
  return "# Gives each pod a name: " + setting.name + "-0." + setting.name +
         " is the one with the scheduler. Pods are named before they are ready.\napiVersion: v1\nkind: Service\n" +
         metadata_of(setting, "") +
         fmt::format(
             "spec:\n  clusterIP: None\n  publishNotReadyAddresses: true\n  selector:\n"
             "    app.kubernetes.io/instance: {}\n  ports:\n    - name: scheduler\n      port: {}\n",
             setting.name, kSchedulerPort);
}

// The resources of a pod. Requests and limits are equal, so the pod gets what it requests and does not take resources
// that other pods requested.
std::string resources_of(const NodeRequest& pod) {
  constexpr int64_t kMiB = 1 << 20;
  std::vector<std::string> lines;
  if (pod.cores > 0) lines.push_back(fmt::format("cpu: \"{}\"", pod.cores));
  if (pod.memory > 0) lines.push_back(fmt::format("memory: {}Mi", (pod.memory + kMiB - 1) / kMiB));
  if (pod.gpus > 0) lines.push_back(fmt::format("nvidia.com/gpu: {}", pod.gpus));
  if (lines.empty()) return "";
  std::string text = "          resources:\n";
  for (const char* kind : {"requests", "limits"}) {
    text += fmt::format("            {}:\n", kind);
    for (const std::string& line : lines) text += "              " + line + "\n";
  }
  return text;
}

std::string script_of(const KubernetesSetting& setting, const std::optional<Volume>& volume) {
  const job::Flags& flags = setting.flags;
  NodeScript node{
      .nodes = nodes_of(flags),
      .servers = flags.job.num_servers,
      .workers = flags.job.num_workers,
      .number = "$JOB_COMPLETION_INDEX",
      .scheduler = setting.name + "-0." + setting.name,
      .directory = volume ? volume->path : "",
      .run_dir = proc::shell_line({flags.launch.run_dir.empty() ? "runs/" + setting.name : flags.launch.run_dir}),
      .command = {"dtrain"},
      .own = {"--advertise", "\"$POD_IP\""},
      .exports = setting.exports,
      .server_exports = setting.server_exports,
      .worker_exports = setting.worker_exports};
  for (std::string& word : process_flags(setting.arguments)) node.command.push_back(std::move(word));
  return node_script(node);
}

// The volumes of a pod. GPUs of a pod exchange data through shared memory, of which a pod has only 64 MiB by default.
std::string volumes_of(const std::optional<Volume>& volume, bool shared_memory) {
  if (!volume && !shared_memory) return "";
  std::string mounts = "          volumeMounts:\n", volumes = "      volumes:\n";
  if (volume) {
    mounts += "            - name: data\n              mountPath: " + quoted_yaml(volume->path) + "\n";
    volumes +=
        "        - name: data\n          persistentVolumeClaim:\n            claimName: " + quoted_yaml(volume->claim) +
        "\n";
  }
  if (shared_memory) {
    mounts += "            - name: shared-memory\n              mountPath: /dev/shm\n";
    volumes += "        - name: shared-memory\n          emptyDir:\n            medium: Memory\n";
  }
  return mounts + volumes;
}

std::string pod_of(const KubernetesSetting& setting, const std::optional<Volume>& volume) {
  std::string text =
      "  template:\n    metadata:\n      labels:\n        app.kubernetes.io/name: dtrain\n"
      "        app.kubernetes.io/instance: " +
      setting.name + "\n    spec:\n      subdomain: " + setting.name +
      fmt::format("\n      restartPolicy: Never\n      terminationGracePeriodSeconds: {}\n", setting.stop_time.count());
  text += "      containers:\n        - name: dtrain\n          image: " + quoted_yaml(setting.flags.batch.image) +
          "\n          command: [\"/bin/sh\", \"-c\"]\n          args:\n            - |\n" +
          indented(script_of(setting, volume), 14);
  text +=
      "          env:\n            - name: DTRAIN_TOKEN\n              valueFrom:\n                secretKeyRef:\n"
      "                  name: " +
      setting.name +
      "\n                  key: token\n            - name: POD_IP\n              valueFrom:\n"
      "                fieldRef:\n                  fieldPath: status.podIP\n";
  return text + resources_of(setting.pod) + volumes_of(volume, setting.pod.gpus > 1);
}

// The manifest of the Job. If a pod fails or is evicted, the whole job ends, because a process that is started again
// could not rejoin it.
std::string job_of(const KubernetesSetting& setting, const std::optional<Volume>& volume) {
  const int64_t nodes = nodes_of(setting.flags);
  std::string text = "apiVersion: batch/v1\nkind: Job\n" + metadata_of(setting, "") +
                     fmt::format(
                         "spec:\n  completionMode: Indexed\n  completions: {}\n  parallelism: {}\n"
                         "  backoffLimit: 0\n  ttlSecondsAfterFinished: {}\n",
                         nodes, nodes, kKeepSeconds);
  const auto limit = std::chrono::ceil<std::chrono::seconds>(setting.flags.batch.time_limit);
  if (limit.count() > 0) text += fmt::format("  activeDeadlineSeconds: {}\n", limit.count());
  text +=
      "  podFailurePolicy:\n    rules:\n      - action: FailJob\n        onExitCodes:\n          operator: NotIn\n"
      "          values: [0]\n      - action: FailJob\n        onPodConditions:\n          - type: DisruptionTarget\n"
      "            status: \"True\"\n";
  return text + pod_of(setting, volume);
}

}  // namespace

std::string dns_label(const std::string& text) {
  std::string label;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 && static_cast<unsigned char>(c) < 128;
    label += plain ? static_cast<char>(std::tolower(static_cast<unsigned char>(c))) : '-';
  }
  label.erase(0, label.find_first_not_of("-0123456789"));
  label = label.substr(0, kLabelMax);
  label.erase(label.find_last_not_of('-') + 1);
  return label.empty() ? "dtrain" : label;
}

Result<std::string> kubernetes_manifests(const KubernetesSetting& setting) {
  DT_TRY_VOID(check_kubernetes(setting));
  DT_TRY(const std::optional<Volume> volume, volume_of(setting.flags.batch.volume));
  return "# A job of dtrain. kubectl apply -f starts it; kubectl delete -f ends it.\n" + secret_of(setting) + "---\n" +
         service_of(setting) + "---\n" + job_of(setting, volume);
}

}  // namespace dtrain::cluster
