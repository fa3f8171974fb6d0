#include "device_comm/staged.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include "comm/call/request_check.h"
#include "comm/plan/path_agreement.h"
#include "device_comm/direct/direct.h"
#include "device_comm/slices.h"
#include "device_comm/staged_work.h"

namespace holdfast::device_comm {

using comm::Block;
using comm::BlockList;
using comm::OpRequest;
using device::Device;

namespace {

std::string name(const OpRequest& request) {
  return std::string(comm::collective_name(request.collective));
}

Status check_memory(const Device& device, const OpRequest& request) {
  const std::uint64_t element = dtype_bytes(request.dtype);
  for (const BlockList* blocks : {&request.input, &request.output}) {
    for (const Block& block : *blocks) {
      if (block.count == 0) continue;
      TRY(device.check_memory(address(block.data), block.count * element, name(request)));
    }
  }
  for (std::size_t i = 0; i < request.residual.size(); ++i) {
    const std::uint64_t bytes = request.input[i].count * sizeof(float);
    if (bytes > 0) TRY(device.check_memory(address(request.residual[i]), bytes, "its residual"));
  }
  return Status::ok();
}

// Keeps the waker for ever: the driver may call it after everything else has gone, or never, when
// the device is lost. One for each node and device.
Staged::Waker* keep(Staged::Waker executor) {
  static std::mutex mutex;
  static auto& all = *new std::deque<Staged::Waker>;
  const std::lock_guard lock(mutex);
  return &all.emplace_back(std::move(executor));
}

// Opens when a part's input has been copied up.
class UpGate final : public comm::Gate {
 public:
  UpGate(std::shared_ptr<Device> device, device::CuEvent event)
      : device_(std::move(device)), event_(event) {}

  std::optional<Status> look() override {
    const Device::Current current(*device_);
    if (!current.status().is_ok()) return current.status();
    const device::Cu result = device_->driver().event_query(event_);
    if (result == device::Cu::kNotReady) return std::nullopt;
    return device_->check(result, "copying the input up");
  }

 private:
  const std::shared_ptr<Device> device_;  // owners: as Staged says, and this object
  const device::CuEvent event_;           // its op's, which gives the event back when it has ended
};

}  // namespace

Staged::Staged(std::shared_ptr<Device> device, Waker* waker, const StagedSettings& settings,
               std::uint32_t processors)
    : device_(std::move(device)),
      waker_(waker),
      settings_(settings),
      kernels_(device_->driver_table(), processors) {}

Result<std::shared_ptr<Staged>> Staged::make(std::shared_ptr<Device> device,
                                             std::weak_ptr<comm::Executor> executor,
                                             const StagedSettings& settings) {
  const Device::Current current(*device);
  TRY(current.status());
  auto processors = device->processors();
  if (!processors.is_ok()) return processors.status();
  // The constructor is private: make_shared cannot call it.
  std::shared_ptr<Staged> staged(
      new Staged(std::move(device), keep(std::move(executor)), settings, processors.value()));
  for (device::CuStream* stream : {&staged->up_, &staged->down_}) {
    auto made = staged->device_->make_stream();
    if (!made.is_ok()) return made.status();
    *stream = made.value();
  }
  if (settings.direct) staged->direct_ = std::make_unique<Direct>(*staged);
  if (settings.encoded.on) staged->encoded_ = std::make_unique<Encoded>(*staged);
  return staged;
}

std::size_t Staged::peer_mappings() const {
  return direct_ == nullptr ? 0 : direct_->peers().mapped();
}

std::uint64_t Staged::scratch_bytes() const {
  return (direct_ == nullptr ? 0 : direct_->scratch().bytes()) +
         (encoded_ == nullptr ? 0 : encoded_->scratch().bytes());
}

Staged::~Staged() {
  const Device::Current current(*device_);
  direct_.reset();
  encoded_.reset();
  bool idle = true;
  for (const device::CuStream stream : {up_, down_}) {
    if (stream.value == nullptr) continue;
    idle = idle && device_->driver().stream_query(stream) == device::Cu::kSuccess;
    // What the stream still has to do ends first; no thread waits here.
    device_->driver().stream_destroy(stream);
  }
  // Kernels that may still run stay until the context goes.
  if (idle) kernels_.unload();
}

Result<std::shared_ptr<DeviceWork>> Staged::start(comm::Communicator& group, OpRequest request,
                                                  std::span<const device::CuStream> streams,
                                                  std::span<const VirtualBlock> virtual_blocks) {
  const Device::Current current(*device_);
  TRY(current.status());
  for (const device::CuStream stream : streams) {
    TRY(device_->check_capture(stream, name(request)));
  }
  // The group checks first: it knows best what is wrong with a request.
  TRY(comm::check_request(request, group.rank(), group.size()));
  request.how.on_device = !comm::is_point_to_point(request.collective);
  std::vector<Packed> packed;
  Status ready = pack(request, streams, virtual_blocks, packed);
  if (ready.is_ok()) ready = check_memory(*device_, request);
  Planned planned;
  if (ready.is_ok()) {
    auto made = plan_for(group, request);
    if (made.is_ok()) planned = made.value();
    ready = made.status();
  }
  if (!ready.is_ok()) {
    // Lists of blocks are freed on the stream down.
    if (!packed.empty()) static_cast<void>(device_->order(up_, down_));
    for (const Packed& one : packed) {
      [[maybe_unused]] const Status released = one.release(*device_, up_);
    }
    return ready;
  }
  const comm::Way way = planned.plan.way;
  if (way == comm::Way::kDirect || way == comm::Way::kTwoLevel) {
    return direct_->start(shared_from_this(), group, request, streams,
                          {way, planned.trial, std::move(packed)});
  }
  if (way == comm::Way::kEncoded) {
    if (request.codec == nullptr) request.codec = settings_.encoded.unasked.codec;
    return encoded_->start(shared_from_this(), group, request, streams,
                           {planned.trial, std::move(packed)});
  }
  auto work = std::make_shared<StagedWork>(shared_from_this(), request.collective);
  work->take_packed(std::move(packed));
  if (const Status staged = prepare(*work, group, request, streams); !staged.is_ok()) {
    work->give_back(false);
    return staged;
  }
  TRY(begin(work, group));
  return std::shared_ptr<DeviceWork>(std::move(work));
}

// Asks what devices have agreed on only where the answer counts: the caller may have to wait for
// it, and takes part in a trial.
Result<Staged::Planned> Staged::plan_for(comm::Communicator& group,
                                         const OpRequest& request) const {
  comm::DeviceFacts facts = facts_of(group);
  const comm::Plan plan = route_on_device(request, facts);
  if (plan.way == comm::Way::kStaged) return Planned{plan, 0};
  auto answer = plan.way == comm::Way::kEncoded ? Encoded::ask(group) : Direct::ask(group);
  if (!answer.is_ok()) return answer.status();
  facts.agreed = answer.value().path == comm::PathAgreement::Path::kDirect;
  if (facts.agreed) return Planned{plan, answer.value().trial};
  return Planned{route_on_device(request, facts), 0};
}

bool Staged::bypasses_host(const comm::Communicator& group, const OpRequest& request) const {
  comm::DeviceFacts facts = facts_of(group);
  facts.agreed = true;
  const comm::Way way = route_on_device(request, facts).way;
  return way == comm::Way::kDirect || way == comm::Way::kTwoLevel;
}

comm::DeviceFacts Staged::facts_of(const comm::Communicator& group) const {
  comm::Placement place = group.placement();
  place.ranks = group.size();
  comm::DeviceFacts facts{.direct = settings_.direct,
                          .direct_bytes = settings_.direct_bytes,
                          .encoded = settings_.encoded.on,
                          .encoded_bytes = settings_.encoded.least_bytes,
                          .codec = settings_.encoded.unasked,
                          .slice_bytes = settings_.slice_bytes,
                          .place = place,
                          .present = {}};
  if (settings_.direct && place.hosts > 1) facts.present = comm::spread_of(group.hosts());
  return facts;
}

// Packs arrays with gaps, before anything else looks at memory.
Status Staged::pack(OpRequest& request, std::span<const device::CuStream> streams,
                    std::span<const VirtualBlock> virtual_blocks, std::vector<Packed>& packed) {
  if (virtual_blocks.empty()) return Status::ok();
  for (const device::CuStream stream : streams) TRY(device_->order(stream, up_));
  return pack_all(shared_from_this(), virtual_blocks, up_, request, packed);
}

// Takes memory for all parts, and enqueues the copies up: what can go wrong does so before an op
// has begun.
Status Staged::prepare(StagedWork& work, const comm::Communicator& group, const OpRequest& request,
                       std::span<const device::CuStream> streams) {
  auto flag = device_->take_flag();
  if (!flag.is_ok()) return flag.status();
  work.flag_ = flag.value();
  const auto slices = slices_of(request, group.size(), slice_bytes());
  work.reads_first_ = slices.size() > 1 && overlap(request);
  for (const OpRequest& slice : slices) {
    StagedBinding binding;
    auto memory = device_->take(binding.plan(slice));
    if (!memory.is_ok()) return memory.status();
    StagedWork::StagedPart& next = work.parts_.emplace_back();
    next.memory = memory.value();
    next.request = binding.bind(slice, next.memory.data);
    next.copies = binding.copies(slice, next.memory.data, group.rank());
  }
  for (const device::CuStream stream : streams) TRY(device_->order(stream, up_));
  for (StagedWork::StagedPart& part : work.parts_) {
    auto event = device_->take_event();
    if (!event.is_ok()) return event.status();
    part.arrived = event.value();
    for (const StagedCopy& copy : part.copies.up) {
      TRY(device_->copy(address(copy.host), copy.device, copy.bytes, up_));
    }
    const device::CudaDriver& d = device_->driver();
    TRY(device_->check(d.event_record(*part.arrived, up_), "recording an event"));
    // The driver polls the gates then.
    TRY(wake_behind(up_));
  }
  return Status::ok();
}

Status Staged::wake_behind(device::CuStream stream) const {
  return device_->check(device_->driver().launch_host_func(stream, wake, waker_),
                        "enqueueing a call");
}

void Staged::wake(void* waker) {
  // The executor may lose its last owner here: it is released in a task, on the runtime's thread.
  if (auto executor = static_cast<Waker*>(waker)->lock()) {
    comm::Executor* runs = executor.get();
    runs->submit([kept = std::move(executor)] {}, true);
  }
}

// From here on parts end by themselves, each once.
Status Staged::begin(const std::shared_ptr<StagedWork>& work, comm::Communicator& group) {
  work->running_ = work->parts_.size();
  for (std::size_t i = 0; i < work->parts_.size(); ++i) {
    StagedWork::StagedPart& part = work->parts_[i];
    part.request.how.gate = std::make_shared<UpGate>(work->staged_->device_, *part.arrived);
    auto started = group.start(std::move(part.request));
    part.request = {};
    if (!started.is_ok()) {
      if (i == 0) {
        work->give_back(false);
        return started.status();
      }
      // The group has ended meanwhile, and so have the ops that started.
      for (std::size_t j = i; j < work->parts_.size(); ++j) work->on_part(j, started.status());
      break;
    }
    part.work = std::move(started).value();
  }
  for (std::size_t i = 0; i < work->parts_.size(); ++i) {
    if (work->parts_[i].work == nullptr) break;
    work->parts_[i].work->on_done([work, i](const Status& status) { work->on_part(i, status); });
  }
  return Status::ok();
}

}  // namespace holdfast::device_comm
