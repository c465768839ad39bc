#include "cuda/executor/compiled_program.h"

#include <algorithm>

#include "cuda/kernels/layout.h"

namespace dtrain::cuda {

using graph::NodeId;

namespace {

std::vector<void*> addresses_of(const std::vector<Map>& maps, const Addresses& at) {
  std::vector<void*> result;
  result.reserve(maps.size());
  for (const Map& map : maps) result.push_back(at.at(map.value));
  return result;
}

// The size in bytes of the largest map if it is converted to float32, as read() does with each map.
size_t largest_bytes(const std::vector<Map>& maps) {
  int64_t most = 0;
  for (const Map& map : maps) most = std::max(most, map.exists() ? map.rows() * map.channels : 0);
  return static_cast<size_t>(most) * sizeof(float);
}

// Returns an error (Code::kDevice) if the current device has too little free memory for `activations` bytes, a number
// that grows with the batch, and `workspace` bytes.
Result<> check_room(size_t activations, size_t workspace, int64_t batch_size) {
  constexpr size_t kMiB = 1 << 20;
  size_t free = 0, total = 0;
  DT_CUDA(cudaMemGetInfo(&free, &total));
  if (activations + workspace <= free) return {};
  const double left = free > workspace ? static_cast<double>(free - workspace) : 0;
  const auto fit = static_cast<int64_t>(static_cast<double>(batch_size) * left / static_cast<double>(activations));
  const std::string advice = fit < 1 ? "make the image or the network smaller"
                                     : fmt::format("use a smaller --batch-size: about {} images fit on a GPU", fit);
  return fail(Code::kDevice, "batches of {} images need {} MiB more of device memory, and {}: {}", batch_size,
              (activations + workspace) / kMiB, free_text(free, total), advice);
}

}  // namespace

Result<std::unique_ptr<CompiledProgram>> CompiledProgram::bind(const Lowered& lowered, const graph::Graph& graph,
                                                               const exec::Options& options, DeviceSpans& spans) {
  std::unique_ptr<CompiledProgram> made(new CompiledProgram(spans));
  const Program& program = lowered.program;
  const exec::MemoryPlan plan = program.plan_memory(!options.keep_all);
  DT_TRY_VOID(check_room(plan.arena_bytes, program.scratch_bytes(), options.batch_size));
  made->arena_ = DeviceMemory(plan.arena_bytes);
  made->scratch_ = DeviceMemory(program.scratch_bytes());
  const Addresses at = program.addresses(plan, made->arena_.at(0), made->scratch_.at(0));
  made->forward_ = made->parts_of(program, lowered.forward, at, graph, false);
  made->backward_ = made->parts_of(program, lowered.backward, at, graph, true);
  made->outputs_ = {lowered.outputs, addresses_of(lowered.outputs, at)};
  made->gradients_ = {lowered.gradients, addresses_of(lowered.gradients, at)};
  for (const ValueId result : lowered.results) made->result_at_.push_back(at.at(result));
  if (options.keep_all) made->read_memory_ = DeviceMemory(largest_bytes(lowered.outputs));
  return made;
}

std::vector<CompiledProgram::Part> CompiledProgram::parts_of(const Program& program,
                                                             const std::vector<StepRange>& ranges, const Addresses& at,
                                                             const graph::Graph& graph, bool backward) {
  std::vector<Part> parts;
  for (const StepRange& range : ranges) {
    std::vector<Call> calls;
    const size_t first_call = calls_.size();
    for (size_t s = range.begin; s < range.end; s++) {
      const Step& step = program.steps()[s];
      calls.push_back(step.bind(at));
      calls_.push_back({.name = graph.node(step.node).name, .backward = backward, .bytes = program.bytes_of(step)});
      span_names_.push_back(spans_.keep(fmt::format("{}: {}", calls_.back().name, backward ? "backward" : "forward")));
    }
    parts.push_back({Segment(std::move(calls)), range.buckets, first_call});
  }
  return parts;
}

void CompiledProgram::queue_recorded(Part& part, cudaStream_t stream) {
  size_t index = part.first_call;
  for (const Call& call : part.segment.calls()) {
    const DeviceSpans::Span span(&spans_, DeviceSpans::Track::kCompute, stream, span_names_[index], "operator",
                                 calls_[index].bytes);
    call(stream);
    index++;
  }
}

std::vector<float> CompiledProgram::read_output(NodeId node, cudaStream_t stream) {
  return read(outputs_.maps[node], outputs_.places[node], 1, stream);
}

std::vector<float> CompiledProgram::read_gradient(NodeId node, float factor, cudaStream_t stream) {
  return read(gradients_.maps[node], gradients_.places[node], factor, stream);
}

std::vector<float> CompiledProgram::read(const Map& map, const void* address, float factor, cudaStream_t stream) {
  DT_CHECK(read_memory_.bytes() > 0, "the values of single nodes are kept only with keep_all");
  if (!map.exists()) return {};
  std::vector<float> values(static_cast<size_t>(map.rows() * map.channels));
  to_planar({map.type, Type::kFloat32, map.n, map.channels, map.positions()}, {address, map.pitch}, read_memory_.at(0),
            stream);
  DT_CUDA(cudaMemcpyAsync(values.data(), read_memory_.at(0), values.size() * sizeof(float), cudaMemcpyDeviceToHost,
                          stream));
  DT_CUDA(cudaStreamSynchronize(stream));
  for (float& value : values) value *= factor;
  return values;
}

}  // namespace dtrain::cuda
