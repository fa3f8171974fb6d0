// A CUDA for a torch that has none: streams that the driver knows, events that do nothing, and
// tensors over memory that somebody else has. For tests of the c10d backend.
#include <ATen/core/TensorBase.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/autograd/python_variable.h>

#include <mutex>
#include <vector>

namespace {

constexpr auto kCuda = c10::DeviceType::CUDA;

struct State {
  std::mutex mutex;  // guards the rest
  std::vector<void*> handles;
  std::size_t taken = 0;  // of the pool, which has all but the first
  std::size_t events = 0;
};
State& state() {
  static auto& all = *new State;
  return all;
}
thread_local c10::StreamId current_id = 0;

c10::Device device() { return {kCuda, 0}; }
c10::Stream stream(c10::StreamId id) { return c10::Stream(c10::Stream::UNSAFE, device(), id); }

struct FakeCuda final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kCuda; }
  c10::Device exchangeDevice(c10::Device) const override { return device(); }
  c10::Device getDevice() const override { return device(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device) const override { return stream(current_id); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    const std::lock_guard lock(state().mutex);
    const std::size_t pooled = state().handles.size() - 1;
    return stream(static_cast<c10::StreamId>(1 + state().taken++ % pooled));
  }
  c10::Stream exchangeStream(c10::Stream next) const override {
    const c10::Stream before = stream(current_id);
    current_id = next.id();
    return before;
  }
  void* getStreamNativeHandle(const c10::Stream of) const override {
    const std::lock_guard lock(state().mutex);
    return state().handles.at(static_cast<std::size_t>(of.id()));
  }
  void record(void** event, const c10::Stream&, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    const std::lock_guard lock(state().mutex);
    // The number of an event stands for its address.
    if (*event == nullptr) *event = reinterpret_cast<void*>(++state().events);
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
};

const c10::impl::DeviceGuardImplRegistrar registered(kCuda, new FakeCuda);

}  // namespace

// Streams as the driver names them: the current one, and those of the pool.
extern "C" void fake_streams(void* const* handles, int count) {
  state().handles.assign(handles, handles + count);
}

// A tensor of `count` floats at `memory`, which stays the caller's. With the interpreter.
extern "C" PyObject* fake_tensor(void* memory, std::int64_t count) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), static_cast<std::size_t>(count) * 4,
                       c10::DataPtr(memory, device()));
  auto tensor = at::detail::make_tensor_base<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA),
      caffe2::TypeMeta::Make<float>());
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous({count});
  return THPVariable_Wrap(tensor);
}
