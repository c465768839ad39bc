#include "kvstore/server/snapshot_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/unique_fd.h"
#include "tensor/buffer.h"

namespace dtrain::kvstore {
namespace {

constexpr uint32_t kMagic = 0x53535444;  // the bytes "DTSS" as a little-endian number
constexpr uint32_t kFormat = 1;
constexpr size_t kHeadBytes = 44;   // of the file, without the job's text
constexpr size_t kSliceBytes = 56;  // of a slice, without the groups and the values
constexpr size_t kChecksumBytes = 4;
constexpr size_t kBlockBytes = size_t{1} << 20;

template <size_t n>
using Block = std::array<uint8_t, n>;

void store_f64(uint8_t* p, double value) {
  store_u64(p, std::bit_cast<uint64_t>(value));
}
double load_f64(const uint8_t* p) {
  return std::bit_cast<double>(load_u64(p));
}

uint64_t file_bytes(const SnapshotLayout& layout) {
  uint64_t bytes = kHeadBytes + layout.job.size() + kChecksumBytes;
  for (const Slice& slice : layout.slices) {
    bytes += kSliceBytes + uint64_t{4} * layout.workers + sizeof(float) * slice.count * (1 + layout.states);
  }
  return bytes;
}

class Writer {
 public:
  explicit Writer(AtomicFile& file) : file_(file) {}
  Result<> write(std::span<const std::byte> bytes) {
    crc_ = crc32c(bytes, crc_);
    return file_.write(bytes);
  }
  Result<> write_checksum() {
    Block<kChecksumBytes> bytes{};
    store_u32(bytes.data(), crc_);
    return file_.write(std::as_bytes(std::span(bytes)));
  }

 private:
  AtomicFile& file_;
  uint32_t crc_ = 0;
};

Result<> write_head(Writer& to, const SnapshotLayout& layout, uint64_t number) {
  Block<kHeadBytes> head{};
  store_u32(head.data(), kMagic);
  store_u32(head.data() + 4, kFormat);
  store_u64(head.data() + 8, number);
  store_u64(head.data() + 16, layout.every);
  store_u32(head.data() + 24, layout.server);
  store_u32(head.data() + 28, static_cast<uint32_t>(layout.slices.size()));
  store_u32(head.data() + 32, layout.workers);
  store_u32(head.data() + 36, layout.states);
  store_u32(head.data() + 40, static_cast<uint32_t>(layout.job.size()));
  DT_TRY_VOID(to.write(std::as_bytes(std::span(head))));
  return to.write(std::as_bytes(std::span(layout.job)));
}

Result<> write_part(Writer& to, const SnapshotPart& part) {
  Block<kSliceBytes> head{};
  const RateChange next = part.next_rate.value_or(RateChange());
  store_u32(head.data(), part.id.key);
  store_u32(head.data() + 4, part.id.slice);
  store_u32(head.data() + 8, static_cast<uint32_t>(part.weights.values.size()));
  store_u32(head.data() + 12, part.next_rate ? 1 : 0);
  store_u64(head.data() + 16, part.counters.samples);
  store_u64(head.data() + 24, part.counters.updates);
  store_f64(head.data() + 32, part.counters.rate_factor);
  store_f64(head.data() + 40, next.factor);
  store_u64(head.data() + 48, next.from_samples);
  DT_TRY_VOID(to.write(std::as_bytes(std::span(head))));
  DT_TRY_VOID(to.write(std::as_bytes(std::span(part.group_of))));
  DT_TRY_VOID(to.write(std::as_bytes(part.weights.values)));
  for (const LentValues& state : part.states) DT_TRY_VOID(to.write(std::as_bytes(state.values)));
  return {};
}

// Reads a file from its beginning to its end. All errors name the file and say what to do.
class Reader {
 public:
  static Result<Reader> open(const std::string& path) {
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd.get() < 0 && errno == ENOENT) return fail(Code::kNotFound, "{}: no such snapshot", path);
    struct stat status {};
    if (fd.get() < 0 || ::fstat(fd.get(), &status) != 0) {
      return fail(Code::kData, "{}: the snapshot cannot be read: {}", path, std::strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) return fail(Code::kData, "{}: not a file, so it is no snapshot", path);
    return Reader(path, std::move(fd), static_cast<uint64_t>(status.st_size));
  }
  [[nodiscard]] uint64_t size() const { return size_; }
  [[nodiscard]] tl::unexpected<Error> refuse(const std::string& why) const {
    return fail(Code::kData, "{}: {}; the snapshot is not used, and the file can be deleted", path_, why);
  }
  Result<> read(std::span<std::byte> out) {
    while (!out.empty()) {
      const ssize_t got = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(at_));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return fail(Code::kData, "{}: the snapshot cannot be read: {}", path_, std::strerror(errno));
      if (got == 0) return refuse("the file is cut");
      at_ += static_cast<uint64_t>(got);
      out = out.subspan(static_cast<size_t>(got));
    }
    return {};
  }
  template <class T, size_t n>
  Result<> read(std::array<T, n>& out) {
    return read(std::as_writable_bytes(std::span(out)));
  }
  void skip(uint64_t bytes) { at_ += bytes; }
  void rewind() { at_ = 0; }

 private:
  Reader(std::string path, UniqueFd fd, uint64_t size) : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}
  std::string path_;
  UniqueFd fd_;
  uint64_t size_;
  uint64_t at_ = 0;
};

// Compares the checksum at the end of the file with its other bytes.
Result<> check_bytes(Reader& from) {
  if (from.size() < kHeadBytes + kChecksumBytes) return from.refuse("the file is cut");
  std::vector<std::byte> block(std::min<uint64_t>(from.size(), kBlockBytes));
  uint32_t crc = 0;
  for (uint64_t left = from.size() - kChecksumBytes; left > 0;) {
    const std::span<std::byte> next = std::span(block).first(std::min<uint64_t>(left, block.size()));
    DT_TRY_VOID(from.read(next));
    crc = crc32c(next, crc);
    left -= next.size();
  }
  Block<kChecksumBytes> checksum{};
  DT_TRY_VOID(from.read(checksum));
  if (load_u32(checksum.data()) != crc) return from.refuse("its checksum is wrong, so the file is cut or damaged");
  from.rewind();
  return {};
}

Result<> check_job(Reader& from, const SnapshotLayout& layout, uint32_t bytes) {
  std::string job(bytes == layout.job.size() ? bytes : 0, '\0');
  DT_TRY_VOID(from.read(std::as_writable_bytes(std::span(job))));
  if (bytes != layout.job.size() || job != layout.job) return from.refuse("it is of another job");
  return {};
}

Result<> check_head(Reader& from, const SnapshotLayout& layout, uint64_t number) {
  Block<kHeadBytes> head{};
  DT_TRY_VOID(from.read(head));
  const auto u32 = [&](size_t at) { return load_u32(head.data() + at); };
  const uint64_t own_number = load_u64(head.data() + 8), every = load_u64(head.data() + 16);
  if (u32(0) != kMagic) return from.refuse("it is not a snapshot of a server");
  if (u32(4) != kFormat)
    return from.refuse(fmt::format("it has format {}, but this version reads {}", u32(4), kFormat));
  DT_TRY_VOID(check_job(from, layout, u32(40)));
  if (u32(24) != layout.server) return from.refuse(fmt::format("it is of server {}, not {}", u32(24), layout.server));
  if (every != layout.every) {
    return from.refuse(fmt::format("it was taken with a snapshot every {} updates, not {}", every, layout.every));
  }
  if (own_number != number) return from.refuse(fmt::format("it is snapshot {}, not {}", own_number, number));
  const bool is_alike = u32(28) == layout.slices.size() && u32(32) == layout.workers && u32(36) == layout.states;
  if (!is_alike || from.size() != file_bytes(layout)) {
    return from.refuse("it has other slices, workers or arrays of the optimizer than this job");
  }
  return {};
}

// Reads everything of a slice but its values.
Result<SnapshotPart> read_part(Reader& from, const SnapshotLayout& layout, const Slice& slice, uint64_t version) {
  Block<kSliceBytes> head{};
  DT_TRY_VOID(from.read(head));
  const auto u32 = [&](size_t at) { return load_u32(head.data() + at); };
  if (u32(0) != slice.key || u32(4) != slice.part || u32(8) != slice.count) {
    return from.refuse("it has other slices than this server");
  }
  SnapshotPart part;
  part.id = {slice.key, slice.part};
  part.counters = {.samples = load_u64(head.data() + 16),
                   .updates = load_u64(head.data() + 24),
                   .rate_factor = load_f64(head.data() + 32)};
  const RateChange next{.factor = load_f64(head.data() + 40), .from_samples = load_u64(head.data() + 48)};
  if (u32(12) == 1) part.next_rate = next;
  part.group_of.resize(layout.workers);
  DT_TRY_VOID(from.read(std::as_writable_bytes(std::span(part.group_of))));
  const auto is_group = [&](uint32_t group) { return group < layout.workers; };
  if (part.counters.updates != version || u32(12) > 1 || !is_rate_factor(part.counters.rate_factor) ||
      !is_rate_factor(next.factor) || !std::ranges::all_of(part.group_of, is_group)) {
    return from.refuse(fmt::format("key {} slice {} has impossible counters or groups", slice.key, slice.part));
  }
  return part;
}

Result<LentValues> read_values(Reader& from, size_t count) {
  const auto values = std::make_shared<Buffer<float>>(count);
  DT_TRY_VOID(from.read(std::as_writable_bytes(values->span())));
  return LentValues{.values = values->span(), .owner = values};
}

Result<Reader> open_checked(const std::string& path, const SnapshotLayout& layout, uint64_t number) {
  DT_TRY(Reader from, Reader::open(path));
  DT_TRY_VOID(check_bytes(from));
  DT_TRY_VOID(check_head(from, layout, number));
  return from;
}

}  // namespace

Result<> write_snapshot(const std::string& path, const SnapshotLayout& layout, uint64_t number,
                        std::span<const SnapshotPart> parts, const std::function<bool()>& is_abandoned,
                        AtomicFile::Fault fault) {
  DT_TRY(AtomicFile file, AtomicFile::create(path, std::move(fault)));
  Writer to(file);
  DT_TRY_VOID(write_head(to, layout, number));
  for (const SnapshotPart& part : parts) {
    if (is_abandoned()) return fail(Code::kUnavailable, "snapshot {} is no longer wanted", number);
    DT_TRY_VOID(write_part(to, part));
  }
  DT_TRY_VOID(to.write_checksum());
  DT_TRY_VOID(file.flush());
  if (is_abandoned()) return fail(Code::kUnavailable, "snapshot {} is no longer wanted", number);
  return file.commit();
}

Result<std::vector<SnapshotPart>> read_snapshot(const std::string& path, const SnapshotLayout& layout,
                                                uint64_t number) {
  DT_TRY(Reader from, open_checked(path, layout, number));
  std::vector<SnapshotPart> parts;
  for (const Slice& slice : layout.slices) {
    DT_TRY(SnapshotPart part, read_part(from, layout, slice, number * layout.every));
    DT_TRY(part.weights, read_values(from, slice.count));
    for (uint32_t i = 0; i < layout.states; i++) {
      DT_TRY(LentValues state, read_values(from, slice.count));
      part.states.push_back(std::move(state));
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

Result<> verify_snapshot(const std::string& path, const SnapshotLayout& layout, uint64_t number) {
  DT_TRY(Reader from, open_checked(path, layout, number));
  for (const Slice& slice : layout.slices) {
    DT_TRY_VOID(read_part(from, layout, slice, number * layout.every));
    from.skip(sizeof(float) * slice.count * (1 + layout.states));
  }
  return {};
}

}  // namespace dtrain::kvstore
