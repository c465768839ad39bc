#include "cuda/kernels/layout.h"

#include "support.h"

namespace dtrain::cuda::test {

namespace {

// A table's arrays in device memory.
template <class T>
class DeviceList {
 public:
  explicit DeviceList(const std::vector<T>& values) : memory_(values.size() * sizeof(T)) {
    std::memcpy(memory_.at(0), values.data(), values.size() * sizeof(T));
  }
  [[nodiscard]] const T* data() const { return static_cast<const T*>(memory_.at(0)); }

 private:
  DeviceMemory memory_;
};

struct Weights {
  int32_t filters, channels, taps, stored;
};
constexpr Weights kWeights[] = {{64, 3, 49, 4}, {64, 64, 9, 64}, {128, 96, 1, 96}, {10, 20, 25, 20},
                                {1, 1, 1, 1},   {7, 3, 9, 3},    {1000, 24, 1, 24}};

size_t count_of(const Weights& w) {
  return static_cast<size_t>(int64_t{w.filters} * w.channels * w.taps);
}

Floats stored_order(const Weights& w, const Floats& canonical) {
  Floats out(static_cast<size_t>(int64_t{w.filters} * w.taps * w.stored));
  for (int32_t f = 0; f < w.filters; f++) {
    for (int32_t c = 0; c < w.channels; c++) {
      for (int32_t t = 0; t < w.taps; t++) {
        out[static_cast<size_t>((int64_t{f} * w.taps + t) * w.stored + c)] =
            canonical[static_cast<size_t>((int64_t{f} * w.channels + c) * w.taps + t)];
      }
    }
  }
  return out;
}

// Converts all of kWeights in both directions, with one launch each.
Results there_and_back(Type type, const Results& canonical, float factor) {
  std::vector<Array> from, stored, back;
  std::vector<WeightTensor> there_list, back_list;
  std::vector<int64_t> stored_counts, canonical_counts;
  for (size_t i = 0; i < canonical.size(); i++) {
    const Weights& w = kWeights[i];
    from.push_back(floats(canonical[i]));
    stored.emplace_back(type, int64_t{w.filters} * w.taps * w.stored);
    back.emplace_back(Type::kFloat32, static_cast<int64_t>(canonical[i].size()));
    there_list.push_back({from[i].floats(), stored[i].data(), type, w.filters, w.channels, w.taps, w.stored});
    back_list.push_back(there_list[i]);
    back_list[i].canonical = back[i].floats();
    stored_counts.push_back(stored_count(there_list[i]));
    canonical_counts.push_back(canonical_count(there_list[i]));
  }
  const DeviceList<WeightTensor> there_table(there_list), back_table(back_list);
  const std::vector<Chunk> there_chunks = chunks_of(stored_counts), back_chunks = chunks_of(canonical_counts);
  const DeviceList<Chunk> there_device(there_chunks), back_device(back_chunks);
  store_weights({there_table.data(), there_device.data(), static_cast<int64_t>(there_chunks.size()),
                 conversion_bytes(there_list)},
                nullptr);
  const Array factor_array = floats({factor});
  read_weights(
      {back_table.data(), back_device.data(), static_cast<int64_t>(back_chunks.size()), conversion_bytes(back_list)},
      factor_array.floats(), nullptr);
  Results results;
  for (const Array& array : stored) results.push_back(array.get());
  for (const Array& array : back) results.push_back(array.get());
  return results;
}

}  // namespace

TEST_CASE("weights become KRSC in their type and canonical again, all in one launch", "[cuda]") {
  Results canonical;
  for (const Weights& w : kWeights) canonical.push_back(normals(count_of(w), canonical.size()));
  for (const Type type : kTypes) {
    const Results results = in_all_orders([&] { return there_and_back(type, canonical, 0.5f); });
    for (size_t i = 0; i < canonical.size(); i++) {
      INFO("type " << static_cast<int>(type) << ", weights " << i);
      REQUIRE(same_bits(results[i], rounded(type, stored_order(kWeights[i], canonical[i]))));
      Floats halved = rounded(type, canonical[i]);
      for (float& x : halved) x *= 0.5f;
      REQUIRE(same_bits(results[canonical.size() + i], halved));
    }
  }
}

TEST_CASE("chunks cover every tensor once", "[cuda]") {
  const std::vector<int64_t> counts = {1, 0, kChunkElements, kChunkElements + 1};
  const std::vector<Chunk> chunks = chunks_of(counts);
  REQUIRE(chunks.size() == 4);
  CHECK((chunks[1].tensor == 2 && chunks[1].index == 0));
  CHECK((chunks[3].tensor == 3 && chunks[3].index == 1));
}

TEST_CASE("maps become planes, as Flatten orders them, and maps again", "[cuda]") {
  for (const Type type : kTypes) {
    for (const Type planar_type : {type, Type::kFloat32}) {
      for (const Extent& e :
           {Extent{2, 50, 4, 4}, Extent{3, 10, 1, 1}, Extent{1, 33, 5, 7}, Extent{2, 1, 9, 9}, Extent{2, 64, 7, 7}}) {
        for (const Lie& lie : kLies) {
          INFO("type " << static_cast<int>(type) << ", " << to_text(e) << ", gap " << lie.gap << ", skew " << lie.skew);
          const Floats x = rounded(type, normals(e.count(), 1));
          const Results results = in_all_orders([&] {
            const Map map(type, e, x, lie), back(type, e, lie);
            const Array planar(planar_type, static_cast<int64_t>(e.count()));
            const Planar shape{
                .type = type, .planar_type = planar_type, .n = e.n, .channels = e.c, .positions = e.h * e.w};
            to_planar(shape, map.in(), planar.data(), nullptr);
            from_planar(shape, planar.data(), back.out(), nullptr);
            REQUIRE(back.gaps_are_untouched());
            return Results{planar.get(), back.get()};
          });
          REQUIRE(same_bits(results[0], x));
          REQUIRE(same_bits(results[1], x));
        }
      }
    }
  }
}

// More images than a grid has blocks, so a block reuses its tile.
TEST_CASE("many small maps become planes", "[cuda]") {
  const Extent e{2300, 5, 2, 2};
  const Floats x = integers(e.count(), 1);
  const Results results = in_all_orders([&] {
    const Map map(Type::kFloat32, e, x);
    const Array planar(Type::kFloat32, static_cast<int64_t>(e.count()));
    to_planar({.n = e.n, .channels = e.c, .positions = 4}, map.in(), planar.data(), nullptr);
    return Results{planar.get()};
  });
  CHECK(same_bits(results[0], x));
}

TEST_CASE("changes of layout report the bytes that they move", "[cuda]") {
  const Extent e{2, 50, 4, 4};
  const Map map(Type::kFloat16, e);
  const Array planar(Type::kFloat32, static_cast<int64_t>(e.count()));
  const emulator::Session session;
  to_planar({.type = Type::kFloat16, .n = 2, .channels = 50, .positions = 16}, map.in(), planar.data(), nullptr);
  CHECK(session.records()[0].bytes == 2 * 50 * 16 * 6);
  const std::vector<WeightTensor> tensors = {{nullptr, nullptr, Type::kFloat16, 64, 3, 49, 4}};
  CHECK(conversion_bytes(tensors) == 64 * 49 * (3 * 4 + 4 * 2));
  CHECK_THROWS_AS(
      to_planar({.type = Type::kFloat16, .planar_type = Type::kBfloat16, .n = 1, .channels = 1, .positions = 1},
                map.in(), planar.data(), nullptr),
      CheckFailed);
}

}  // namespace dtrain::cuda::test
