#include "backend.h"

#include <unistd.h>

#include "comm/transport/post.h"
#include "device_ops.h"
#include "gil.h"
#include "pool_allocator.h"
#include "raise.h"

namespace holdfast::torch_backend {
namespace {

// An orderly shutdown waits this long for the process's running ops.
constexpr Duration kCloseTime = std::chrono::seconds(10);

// Eager messages need no thread to drive them: most callers wait at once, and a later wait() finds
// the message received.
bool is_small_message(const comm::OpRequest& request) {
  if (!comm::is_point_to_point(request.collective)) return false;
  const comm::Block& block = request.input.empty() ? request.output[0] : request.input[0];
  return block.count * dtype_bytes(request.dtype) <= comm::kEagerBytes;
}

}  // namespace

HoldfastBackend::HoldfastBackend(std::shared_ptr<comm::Communicator> group, Home home)
    : Backend(group->rank().value, group->size()),
      group_(std::move(group)),
      options_(c10::make_intrusive<BackendOptions>(home.timeout)),
      home_(std::move(home)),
      process_(::getpid()) {
  options_->group_name = home_.group;
  fresh_ = group_->is_newcomer();
  init();
}

HoldfastBackend::HoldfastBackend(Home home, int rank, int size)
    : Backend(rank, size),
      options_(c10::make_intrusive<BackendOptions>(home.timeout)),
      home_(std::move(home)),
      process_(::getpid()) {
  options_->group_name = home_.group;
  init();
}

HoldfastBackend::~HoldfastBackend() {
  if (is_forked()) {
    // The child has neither the threads nor the right to say goodbye for its parent.
    [[maybe_unused]] const auto* leaked = new std::shared_ptr(std::move(group_));
    return;
  }
  const WithoutGil release;
  group_.reset();
}

bool HoldfastBackend::supportsTensorAlloc(c10::DeviceIndex) { return home_.node != nullptr; }

std::shared_ptr<c10::Allocator> HoldfastBackend::getMemAllocator() {
  refuse_in_child();
  if (home_.node == nullptr) {
    raise({Code::kUnsupported,
           "a process group over a holdfast.Group has no allocator of its own; "
           "use holdfast.empty()"});
  }
  return make_allocator(home_.node->pool());
}

at::Tensor HoldfastBackend::allocateTensor(long elements, at::TensorOptions options) {
  return allocate_tensor(*getMemAllocator(), elements, options);
}

bool HoldfastBackend::is_forked() const { return ::getpid() != process_; }

const std::shared_ptr<comm::Communicator>& HoldfastBackend::group() const {
  refuse_in_child();
  if (!group_) {
    raise({Code::kConfigError, "group " + home_.group +
                                   " has no members yet: it was made with enable_reconfigure=True, "
                                   "so torch.distributed._reconfigure() comes first"});
  }
  return group_;
}

void HoldfastBackend::abort() {
  if (is_forked() || !group_) return;
  const WithoutGil release;
  observers_->failing();
  group_->abort("abort() was called");
}

void HoldfastBackend::shutdown() {
  // A group that existed before the backend stays.
  if (is_forked() || !home_.node || !group_) return;
  Status status;
  {
    const WithoutGil release;
    status = group_->close(kCloseTime);
  }
  // Other errors mean that the group's ops cannot end any more, which the group has reported
  // already.
  if (status.code() == Code::kUnconfirmed) TORCH_WARN(status.message());
}

c10d::ErrorType HoldfastBackend::getError() {
  if (!group_) return c10d::ErrorType::SUCCESS;
  switch (group_->health().code()) {
    case Code::kOk: return c10d::ErrorType::SUCCESS;
    case Code::kTimeout: return c10d::ErrorType::TIMEOUT;
    case Code::kPeerLost: return c10d::ErrorType::REMOTE_ERROR;
    default: return c10d::ErrorType::COMM_ERROR;
  }
}

void HoldfastBackend::refuse_in_child() const {
  if (!is_forked()) return;
  raise({Code::kNotMember,
         "this process was forked from a member of group " + home_.group +
             ", and the runtime's threads did not come along: use the 'spawn' start method, or "
             "init_process_group() in the child only"});
}

WorkPtr HoldfastBackend::go(Face face, std::vector<Item> items, const CallOptions& call) {
  const auto& group = this->group();
  // Messages concern two ranks; the count of collectives is the same on all of them.
  if (!c10d::isP2POp(face.type)) sequence_.fetch_add(1, std::memory_order_relaxed);
  const auto limit = call.timeout == c10d::kUnsetTimeout ? options_->timeout : call.timeout;
  const OpType face_type = face.type;
  c10::intrusive_ptr<HoldfastWork> work;
  if (coalescing_) {
    coalesced_results_.insert(coalesced_results_.end(), face.results.begin(), face.results.end());
  } else {
    work = new_work(std::move(face));
  }
  Started started;
  Status refused;
  for (Item& item : items) {
    item.request.timeout = limit;
    item.request.priority = priority();
    if (!item.request.on_hole) item.request.on_hole = on_hole();
    const bool raises = item.request.on_hole.value_or(group->on_hole()) == comm::OnHole::kRaise;
    const bool may_have_holes = raises && comm::gathers(item.request.collective);
    const bool lazy =
        !coalescing_ && is_small_message(item.request) && item.tensors.device().is_cpu();
    item.request.how.expect_wait = (!call.async && !coalescing_) || lazy;
    const c10::Device device = item.tensors.device();
    auto op = device.is_cpu() ? group->start(std::move(item.request))
                              : start_on_device(home_.node.get(), *group, std::move(item.request),
                                                device, item.tensors.virtual_blocks());
    if (!op.is_ok()) {
      refused = op.status();
      break;
    }
    started.ops.push_back(std::move(op).value());
    started.tensors.push_back(std::move(item.tensors));
    started.lazy = started.lazy || lazy;
    started.may_have_holes = started.may_have_holes || may_have_holes;
  }
  if (work) {
    work->follow(std::move(started));
    if (face_type == OpType::SEND) work->push();
  } else {
    coalesced_.append(std::move(started));
  }
  if (refused.is_ok()) return work;
  // The ops before the refused one run on; their works keep the memory until they end.
  if (coalescing_) endCoalescing();
  raise(refused);
}

c10::intrusive_ptr<HoldfastWork> HoldfastBackend::new_work(Face face) {
  return c10::make_intrusive<HoldfastWork>(
      HoldfastWork::About{getRank(), face.type, face.title, std::move(face.inputs),
                          std::move(face.results), getSequenceNumberForGroup(), timed_},
      group(), callbacks_, observers_);
}

void HoldfastBackend::startCoalescing() { coalescing_ = true; }

WorkPtr HoldfastBackend::endCoalescing() {
  coalescing_ = false;
  TensorList results = std::exchange(coalesced_results_, {});
  const auto work =
      new_work({OpType::COALESCED, "holdfast:coalesced", results, std::move(results)});
  work->follow(std::exchange(coalesced_, {}));
  return work;
}

void HoldfastBackend::registerOnCompletionHook(Observers::Hook&& hook) {
  if (onCompletionHook_) raise({Code::kConfigError, "a completion hook is registered already"});
  onCompletionHook_ = std::move(hook);
  observers_->set_hook(onCompletionHook_);
}

void HoldfastBackend::waitForPendingWorks() {
  if (is_forked()) return;
  const WithoutGil release;
  observers_->wait();
}

}  // namespace holdfast::torch_backend
