// Kineto, the profiler inside libtorch, behind functions of C: tch has none of it.
//
// A recording belongs to the thread that starts it. Errors come back as text that the caller frees; none leaves as an
// exception.

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/cuda.h>
#include <torch/version.h>

using namespace torch::autograd::profiler;
namespace impl = torch::profiler::impl;

// As `RawEvent` in kineto.rs has it.
struct OptorchEvent {
  const char* name;
  uint64_t start_ns;
  uint64_t duration_ns;
  uint64_t thread;
  int64_t bytes;
  uint64_t correlation;
  uint8_t what; // 0 operator, 1 function, 2 memory, 3 work of a GPU
  const int64_t* extents;
  const size_t* ranks;
  size_t tensors;
  const char* const* modules;
  size_t module_count;
  uint64_t flops; // 0 where there is no formula, or shapes were not recorded
};

namespace {

// What is recorded: the processor, and the GPU where libtorch has one.
const std::set<impl::ActivityType>& activities() {
  static const std::set<impl::ActivityType> found = torch::cuda::is_available()
      ? std::set<impl::ActivityType>{impl::ActivityType::CPU, impl::ActivityType::CUDA}
      : std::set<impl::ActivityType>{impl::ActivityType::CPU};
  return found;
}

char* text(const std::string& message) { return strdup(message.c_str()); }

template <typename Work>
char* guarded(Work work) {
  try {
    work();
    return nullptr;
  } catch (const std::exception& error) {
    return text(error.what());
  } catch (...) {
    return text("an error without a name");
  }
}

uint8_t what(const KinetoEvent& event) {
  if (event.deviceType() == c10::DeviceType::CUDA) return 3;
  if (event.name() == "[memory]") return 2;
  return event.scope() == static_cast<uint8_t>(at::RecordScope::FUNCTION) ? 0 : 1;
}

// Inputs of a call begin behind what else lies on TorchScript's stack, which is recorded with them.
size_t foreign(const KinetoEvent& event) {
  const auto known = c10::Dispatcher::singleton().findSchema({event.name(), event.overload_name()});
  if (!known) return 0;
  const size_t own = known->schema().arguments().size();
  return event.shapes().size() > own ? event.shapes().size() - own : 0;
}

uint64_t product(const std::vector<int64_t>& extents) {
  uint64_t all = 1;
  for (const int64_t extent : extents) all *= static_cast<uint64_t>(extent);
  return all;
}

// Output extents of a convolution, as PyTorch's documentation of Conv2d has them, times the multiply-adds of one output.
uint64_t convolution(c10::ArrayRef<std::vector<int64_t>> shapes, const std::vector<int64_t>& stride,
                     const std::vector<int64_t>& padding, const std::vector<int64_t>& dilation) {
  const auto& input = shapes[0];
  const auto& weight = shapes[1];
  const size_t spatial = weight.size() - 2;
  if (input.size() != weight.size() || stride.empty() || padding.empty() || dilation.empty()) return 0;
  const auto at = [](const std::vector<int64_t>& list, size_t axis) { return list[std::min(axis, list.size() - 1)]; };
  uint64_t outputs = input[0] * weight[0];
  for (size_t axis = 0; axis < spatial; ++axis) {
    const int64_t window = at(dilation, axis) * (weight[axis + 2] - 1) + 1;
    outputs *= (input[axis + 2] + 2 * at(padding, axis) - window) / at(stride, axis) + 1;
  }
  return 2 * outputs * product(weight) / weight[0];
}

// Floating-point operations of a call, a multiply-add being two. Kineto's own numbers are of other inputs where TorchScript
// calls, for the reason that `foreign` gives.
uint64_t flops(const KinetoEvent& event) {
  if (!event.hasShapes() || what(event) != 0) return 0;
  const size_t skip = foreign(event);
  const auto shapes = event.shapes().slice(skip);
  const auto name = event.name();
  const auto is = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(), [&](const char* other) { return name == other; });
  };
  const auto has = [&](size_t place) { return shapes.size() > place && !shapes[place].empty(); };
  if (is({"aten::mm", "aten::bmm", "aten::matmul"}) && has(0) && has(1)) return 2 * product(shapes[0]) * shapes[1].back();
  if (is({"aten::addmm", "aten::baddbmm"}) && has(1) && has(2)) return 2 * product(shapes[1]) * shapes[2].back();
  if (is({"aten::linear"}) && has(0) && has(1)) return 2 * product(shapes[0]) * shapes[1][0];
  if (is({"aten::add", "aten::add_", "aten::mul", "aten::mul_"}) && has(0)) return product(shapes[0]);
  const bool swapped = is({"aten::mkldnn_convolution"});
  if (!swapped && !is({"aten::conv1d", "aten::conv2d", "aten::conv3d"})) return 0;
  if (!has(0) || !has(1) || shapes[1].size() < 3 || !event.hasConcreteInputs()) return 0;
  const auto inputs = event.concreteInputs();
  const auto list = [&](size_t place) {
    place += skip;
    return place < inputs.size() && inputs[place].isIntList() ? inputs[place].toIntVector() : std::vector<int64_t>{};
  };
  return convolution(shapes, list(swapped ? 4 : 3), list(swapped ? 3 : 4), list(5));
}

} // namespace

extern "C" {

char* optorch_start(bool shapes, bool memory, bool modules) {
  return guarded([&] {
    impl::ProfilerConfig config(impl::ProfilerState::KINETO, shapes, memory, /*stack*/ false, /*flops*/ false, modules);
    prepareProfiler(config, activities());
    enableProfiler(config, activities());
  });
}

// Ends the recording, gives each event to `each`, and writes the trace if there is a path.
char* optorch_stop(const char* trace, void* context, void (*each)(void*, const OptorchEvent*)) {
  return guarded([&] {
    auto result = disableProfiler();
    for (const auto& event : result->events()) {
      const bool known = event.deviceType() == c10::DeviceType::CPU || event.deviceType() == c10::DeviceType::CUDA;
      if (!known || event.isHiddenEvent()) continue;
      const std::string name = event.name();
      std::vector<int64_t> extents;
      std::vector<size_t> ranks;
      if (event.hasShapes()) {
        for (const auto& shape : event.shapes().slice(foreign(event))) {
          extents.insert(extents.end(), shape.begin(), shape.end());
          ranks.push_back(shape.size());
        }
      }
      std::vector<const char*> modules;
      if (event.hasModuleHierarchy()) {
        for (const auto& module : event.moduleHierarchy()) modules.push_back(module.c_str());
      }
      const uint8_t kind = what(event);
      const uint64_t correlation = kind == 3 ? event.linkedCorrelationId() : event.correlationId();
      const OptorchEvent given{name.c_str(),   event.startNs(), event.durationNs(), event.startThreadId(),
                               kind == 2 ? event.nBytes() : 0,  correlation,        kind,
                               extents.data(), ranks.data(),    ranks.size(),       modules.data(),
                               modules.size(), flops(event)};
      each(context, &given);
    }
    if (trace != nullptr) result->save(trace);
  });
}

// A slice around a run, in the trace; ends with `optorch_end`, of the last one begun first.
void* optorch_begin(const char* name) {
  auto* slice = new at::RecordFunction(at::RecordScope::USER_SCOPE);
  if (slice->isActive()) slice->before(std::string(name));
  return slice;
}

void optorch_end(void* slice) { delete static_cast<at::RecordFunction*>(slice); }

const char* optorch_version() { return TORCH_VERSION; }

void optorch_free(char* message) { free(message); }
}
