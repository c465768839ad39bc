#include "cluster/hosts.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "base/file.h"
#include "base/random.h"

namespace dtrain::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kSkipped = 77;
constexpr double kCommandSeconds = 60;

std::string script() {
  const char* path = std::getenv("DTRAIN_HOSTS");
  if (path == nullptr) throw std::runtime_error("DTRAIN_HOSTS does not name the script; run this with meson test");
  return path;
}

Ended command(const std::vector<std::string>& words) {
  return run(words, {.deadline_s = kCommandSeconds, .directory = {}, .environment = {}});
}

// Opens a TAP device, whose frames this process reads and writes; -1 if that fails. `name_space` is the path of a
// network namespace; empty means the current one.
int open_tap(const std::string& name, const std::string& name_space) {
  int tap = -1;
  std::thread([&] {  // a separate thread, which may stay in the other namespace
    if (!name_space.empty()) {
      const int there = open(name_space.c_str(), O_RDONLY | O_CLOEXEC);
      if (there < 0 || setns(there, CLONE_NEWNET) != 0) return;
      close(there);
    }
    const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    ifreq request{};
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
    if (fd >= 0 && ioctl(fd, TUNSETIFF, &request) == 0) tap = fd;
  })
      .join();
  return tap;
}

struct Frame {
  Clock::time_point due;
  std::string bytes;
};

// Carries frames between two devices. Drops some of them and delays the others.
class SlowLink : public Hosts::Link {
 public:
  SlowLink(std::array<int, 2> taps, double loss, int delay_ms)
      : taps_(taps), loss_(loss), delay_(delay_ms), thread_([this] { carry(); }) {}
  ~SlowLink() override {
    over_ = true;
    thread_.join();
    for (const int tap : taps_) close(tap);
  }
  [[nodiscard]] uint64_t lost() const override { return lost_; }

 private:
  void carry() {
    while (!over_) {
      std::array<pollfd, 2> watched{{{taps_[0], POLLIN, 0}, {taps_[1], POLLIN, 0}}};
      poll(watched.data(), watched.size(), 1);
      for (size_t from = 0; from < 2; from++) take(from);
      for (size_t to = 0; to < 2; to++) deliver(to);
    }
  }
  void take(size_t from) {
    std::array<char, 65536> bytes;
    ssize_t got = 0;
    while ((got = read(taps_[from], bytes.data(), bytes.size())) > 0) {
      if (random_.uniform(0, 1) < loss_) {
        lost_++;
        continue;
      }
      under_way_[1 - from].push_back({Clock::now() + delay_, std::string(bytes.data(), static_cast<size_t>(got))});
    }
  }
  void deliver(size_t to) {
    std::deque<Frame>& frames = under_way_[to];
    for (; !frames.empty() && frames.front().due <= Clock::now(); frames.pop_front()) {
      [[maybe_unused]] const ssize_t put = write(taps_[to], frames.front().bytes.data(), frames.front().bytes.size());
    }
  }

  std::array<int, 2> taps_;
  double loss_;
  std::chrono::milliseconds delay_;
  RandomStream random_{17, Use::kTest, 0};
  std::array<std::deque<Frame>, 2> under_way_;  // by destination device
  std::atomic<uint64_t> lost_ = 0;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Hosts> Hosts::make(int count, std::string& why_not) {
  std::unique_ptr<Hosts> hosts(new Hosts);
  const Ended end = command({script(), "up", hosts->dir_.path(), std::to_string(count)});
  why_not = end.output;
  if (end.code == kSkipped) return nullptr;
  if (end.code != 0) throw std::runtime_error("no hosts: " + end.output);
  std::istringstream net(read_file(hosts->dir_.path("net")).value());
  net >> hosts->net_;
  std::istringstream addresses(read_file(hosts->host_file()).value());
  for (std::string address; addresses >> address;) hosts->addresses_.push_back(address);
  return hosts;
}

Hosts::~Hosts() {
  command({script(), "down", dir_.path()});
}

std::string Hosts::address(int i) const {
  return addresses_.at(static_cast<size_t>(i));
}

std::string Hosts::gateway() const {
  return "10.99." + net_ + ".254";
}

ProcessOptions Hosts::options(const std::string& directory) const {
  return {.directory = directory,
          .environment = {"PATH=" + dir_.path("bin") + ":" + std::getenv("PATH"), "XDG_STATE_HOME=" + directory,
                          "DMLC_INTERFACE", "DMLC_NODE_HOST", "DTRAIN_TOKEN"}};
}

std::vector<std::string> Hosts::on(int i, const std::vector<std::string>& command) const {
  std::vector<std::string> words = {script(), "run", dir_.path(), std::to_string(i + 1)};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

std::string Hosts::processes() const {
  std::istringstream pids(command({script(), "pids", dir_.path()}).output);
  std::string text;
  for (std::string pid; pids >> pid;) {
    const Result<std::string> status = read_file("/proc/" + pid + "/stat");
    if (!status || status->find(") Z") != std::string::npos) continue;
    std::string line = read_file("/proc/" + pid + "/cmdline").value_or("");
    std::replace(line.begin(), line.end(), '\0', ' ');
    text += pid + " " + line + "\n";
  }
  return text;
}

pid_t Hosts::find_process(const std::string& words) const {
  std::istringstream lines(processes());
  for (std::string line; std::getline(lines, line);) {
    if (line.find(words) != std::string::npos) return std::stoi(line);
  }
  return 0;
}

bool Hosts::all_quiet(double seconds) const {
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  while (!processes().empty()) {
    if (Clock::now() > deadline) return false;
  }
  return true;
}

std::string Hosts::ssh_calls() const {
  return read_file(dir_.path("calls")).value_or("");
}

bool Hosts::limit(int i, const std::vector<std::string>& what, std::string& why_not) const {
  std::vector<std::string> words = {script(), "limit", dir_.path(), std::to_string(i + 1)};
  words.insert(words.end(), what.begin(), what.end());
  const Ended end = command(words);
  why_not = end.output.substr(0, end.output.find('\n'));
  if (end.code != 0 && end.code != kSkipped) throw std::runtime_error("no limit: " + end.output);
  return end.code == 0;
}

void Hosts::cut_off(int i) const {
  must_run({"ip", "link", "set", "v" + net_ + "-" + std::to_string(i + 1), "down"});
}

void Hosts::mend(int i) const {
  must_run({"ip", "link", "set", "v" + net_ + "-" + std::to_string(i + 1), "up"});
}

// Each sends its frames for the other to a MAC address that nobody has.
void Hosts::cut_between(int i, int j) const {
  for (const auto& [from, to] : {std::pair(i, j), std::pair(j, i)}) {
    must_run({"ip", "-n", "dt" + net_ + "-" + std::to_string(from + 1), "neigh", "replace", address(to), "lladdr",
              "02:00:00:00:00:01", "dev", "eth0", "nud", "permanent"});
  }
}

void Hosts::mend_between(int i, int j) const {
  for (const auto& [from, to] : {std::pair(i, j), std::pair(j, i)}) {
    must_run({"ip", "-n", "dt" + net_ + "-" + std::to_string(from + 1), "neigh", "del", address(to), "dev", "eth0"});
  }
}

std::unique_ptr<Hosts::Link> Hosts::slow_link(int i, double loss, int delay_ms, std::string& why_not) const {
  const std::string name = "v" + net_ + "-" + std::to_string(i + 1), space = "dt" + net_ + "-" + std::to_string(i + 1);
  must_run({"ip", "link", "del", name});  // deletes the other end too
  const int here = open_tap(name, ""), there = open_tap("eth0", "/run/netns/" + space);
  if (here < 0 || there < 0) {
    why_not = "no TAP devices (/dev/net/tun)";
    return nullptr;
  }
  must_run({"ip", "link", "set", name, "master", "br-dt" + net_, "up"});
  must_run({"ip", "-n", space, "addr", "add", address(i) + "/24", "dev", "eth0"});
  // The MAC address of the deleted device: the other hosts have it in their ARP caches.
  const std::string own = fmt::format("02:00:0a:63:{:02x}:{:02x}", std::stoi(net_), i + 1);
  must_run({"ip", "-n", space, "link", "set", "eth0", "address", own, "up"});
  return std::make_unique<SlowLink>(std::array<int, 2>{here, there}, loss, delay_ms);
}

}  // namespace dtrain::test
