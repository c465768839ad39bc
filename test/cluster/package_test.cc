// `dtrain package`: the archive, unpacked where nothing but glibc is.
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <memory>

#include "base/file.h"
#include "cluster/hosts.h"
#include "cluster/loopback_job.h"
#include "images/make_jpeg.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/must.h"
#include "support/text.h"

using namespace dtrain;
using dtrain::test::contains;
using namespace dtrain::test;

namespace {

namespace fs = std::filesystem;
constexpr double kPackSeconds = 200;  // gzip takes a few seconds on an idle host
constexpr double kCommandSeconds = 100;

Ended run_for(double seconds, const std::string& directory, const std::vector<std::string>& command) {
  return run(command, {.deadline_s = seconds, .directory = directory, .environment = {}});
}

// A root with the libraries of glibc, and with nothing else: no shell, no tools, no other libraries.
class BareRoot {
 public:
  explicit BareRoot(const std::string& path) : path_(path) {
    for (const char* directory : {"proc", "dev", "tmp", "lib64", "usr/lib/x86_64-linux-gnu"}) {
      must(make_directories(path + "/" + directory));
    }
    fs::create_symlink("usr/lib", path + "/lib");
    fs::copy_file("/lib64/ld-linux-x86-64.so.2", path + "/lib64/ld-linux-x86-64.so.2");
    for (const char* name : {"libc.so.6", "libm.so.6", "libmvec.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1",
                             "libresolv.so.2", "libutil.so.1", "libanl.so.1"}) {
      fs::copy_file(std::string("/lib/x86_64-linux-gnu/") + name, path + "/usr/lib/x86_64-linux-gnu/" + name);
    }
  }

  // Runs the command in the root, in a mount namespace of its own, with the root's /tmp as working directory.
  [[nodiscard]] Ended run(const std::vector<std::string>& command, const std::string& variables = "") const {
    const std::string script =
        "mount -t proc proc \"$0/proc\" && mount --rbind /dev \"$0/dev\" && exec env -i PATH=\"$PATH\" " + variables +
        " chroot \"$0\" \"$@\"";
    std::vector<std::string> words = {"unshare", "--mount", "sh", "-c", script, path_};
    words.insert(words.end(), command.begin(), command.end());
    return run_for(kCommandSeconds, path_, words);
  }
  [[nodiscard]] std::string path(const std::string& name) const { return path_ + name; }

 private:
  std::string path_;
};

std::string png_chunk(const std::string& kind, const std::string& data) {
  const auto big_endian = [](uint64_t n) {
    return std::string{static_cast<char>(n >> 24), static_cast<char>(n >> 16), static_cast<char>(n >> 8),
                       static_cast<char>(n)};
  };
  const std::string body = kind + data;
  const uint64_t sum = ::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(data.size()) + body + big_endian(sum);
}

// A gray image of less than 256 by 256 pixels.
std::string make_png(int height, int width) {
  const std::string rows(static_cast<size_t>(height * (width + 1)), '\0');
  std::string packed(::compressBound(rows.size()), '\0');
  uLongf size = packed.size();
  ::compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()), rows.size());
  packed.resize(size);
  const std::string header = {0, 0, 0, static_cast<char>(width), 0, 0, 0, static_cast<char>(height), 8, 0, 0, 0, 0};
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", header) + png_chunk("IDAT", packed) + png_chunk("IEND", "");
}

bool can_change_root() {
  if (::geteuid() != 0) {
    WARN("skipped: not root: network namespaces cannot be made");
    return false;
  }
  return true;
}

}  // namespace

TEST_CASE("an unpacked package needs nothing but glibc", "[package]") {
  if (!can_change_root()) return;
  const TempDir dir;
  const Ended packed = run_for(kPackSeconds, dir.path(), {dtrain_program(), "package", "--out", "p.tar.gz"});
  INFO(packed.output);
  REQUIRE(packed.code == 0);
  CHECK(contains(packed.output, "hosts need: an x86-64 processor, Linux, glibc 2."));
  const BareRoot root(dir.path("root"));
  REQUIRE(run_for(kCommandSeconds, dir.path(), {"tar", "-xf", "p.tar.gz", "-C", root.path("")}).code == 0);
  const size_t name_end = packed.output.find(": build "), name_begin = packed.output.rfind('\n', name_end) + 1;
  const std::string directory = "/" + packed.output.substr(name_begin, name_end - name_begin);
  const std::string program = directory + "/bin/dtrain";
  CHECK(run_for(kCommandSeconds, root.path(directory), {"sha256sum", "--check", "--quiet", "MANIFEST"}).code == 0);
  const Ended version = root.run({program, "--version"});
  INFO(version.output);
  REQUIRE(version.code == 0);

  // Other versions of libraries that the host has must not be used, even if a variable leads to them.
  must(write_file_atomic(root.path("/usr/lib/x86_64-linux-gnu/libfmt.so.9"), "an old library"));
  must(write_file_atomic(root.path("/usr/lib/x86_64-linux-gnu/libblas.so.3"), "an old library"));
  CHECK(root.run({program, "--version"}, "LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu").output == version.output);

  // The training records hold JPEGs.
  const Ended drawn = root.run({program, "data", "synth", "--out", "/tmp/data", "--count", "64", "--size", "28"});
  INFO(drawn.output);
  REQUIRE(drawn.code == 0);
  const Ended trained =
      root.run({program, "--network", "lenet", "--image-shape", "3,28,28", "--data-dir", "/tmp/data", "--num-epochs",
                "1", "--batch-size", "16", "--lr", "0.01", "--threads", "1", "--run-dir", "/tmp/run"});
  INFO(trained.output);
  REQUIRE(trained.code == 0);
  CHECK(contains(trained.output, "Validation-accuracy="));
  must(write_file_atomic(root.path("/tmp/a.png"), make_png(28, 28)));
  const std::vector<uint8_t> jpeg = make_jpeg(28, 28, {});
  must(write_file_atomic(root.path("/tmp/b.jpg"), {reinterpret_cast<const char*>(jpeg.data()), jpeg.size()}));
  const Ended predicted = root.run({program, "predict", "--model", "/tmp/run", "/tmp/a.png", "/tmp/b.jpg"});
  INFO(predicted.output);
  CHECK(predicted.code == 0);
  CHECK(contains(predicted.output, "a.png"));
  CHECK(contains(predicted.output, "b.jpg"));
  // What the modules do.
  const Ended plotted = root.run({program, "plot", "/tmp/run", "--out", "/tmp/curves.png"});
  INFO(plotted.output);
  CHECK(plotted.code == 0);
  must(write_file_atomic(root.path("/tmp/train-images-idx3-ubyte.gz"), "not the data set"));
  const Ended downloaded = root.run({program, "data", "get", "mnist", "--out", "/tmp/mnist", "--url", "file:///tmp/"});
  INFO(downloaded.output);
  CHECK(downloaded.code != 0);
  CHECK(contains(downloaded.output, "train-images-idx3-ubyte.gz"));
  CHECK_FALSE(contains(downloaded.output, "cannot load"));
}

// The hosts share this host's files, so some libraries and rsync are hidden there.
TEST_CASE("--sync-dst-dir takes the program to hosts without its libraries and without rsync", "[package]") {
  std::string why_not;
  const std::unique_ptr<Hosts> hosts = Hosts::make(2, why_not);
  if (hosts == nullptr) {
    WARN("skipped: " << why_not);
    return;
  }
  for (int i = 0; i < 2; i++) {
    for (const char* file : {"/usr/bin/rsync", "/usr/lib/x86_64-linux-gnu/libgrpc++.so.1.51",
                             "/usr/lib/x86_64-linux-gnu/libopencv_core.so.406"}) {
      if (fs::exists(file)) REQUIRE(run(hosts->on(i, {"mount", "--bind", "/dev/null", file}), {}).code == 0);
    }
  }
  const TempDir dir;
  const std::string here = dir.path("here");
  must(make_directories(here));
  make_images(here);
  must(write_file_atomic(here + "/big", "not needed there"));
  const auto launch = [&](const std::string& run_dir) {
    ProcessOptions options = hosts->options(here);
    options.deadline_s = kPackSeconds;
    return run(
        command_line(dtrain_program(), "-n 2 -s 1 -H", hosts->host_file(), "--sync-dst-dir", std::string("/tmp/a copy"),
                     "--exclude big --network lenet --image-shape 3,28,28 --data-dir . --num-epochs 1 "
                     "--batch-size 50 --threads 1 --run-dir",
                     run_dir),
        options);
  };
  const Ended first = launch("first");
  INFO(first.output);
  REQUIRE(first.code == 0);
  CHECK(contains(first.output, "MiB, to 2 hosts"));
  CHECK(contains(first.output, "have no rsync"));
  CHECK(contains(read_file(here + "/first/worker-1.log").value_or(""), "Epoch[0] Train-accuracy"));
  const Ended there = run(hosts->on(0, {"ls", "/tmp/a copy"}), {});
  CHECK(contains(there.output, "train.rec"));
  CHECK_FALSE(contains(there.output, "big"));
  const Ended second = launch("second");
  INFO(second.output);
  CHECK(second.code == 0);
  CHECK_FALSE(contains(second.output, "MiB, to "));

  // Without the flag ps looks for the program where it is here.
  const std::vector<std::string> ps = {dtrain_program(), "ps",         "-H", hosts->host_file(),
                                       "--sync-dst-dir", "/tmp/a copy"};
  const Ended listed = run(ps, hosts->options(here));
  INFO(listed.output);
  CHECK(listed.code == 0);
}
