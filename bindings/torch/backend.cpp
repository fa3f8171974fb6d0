#include "backend.h"

#include <Python.h>

#include "raise.h"

namespace holdfast::torch_backend {
namespace {

// A process that goes down in order waits this long for its running ops.
constexpr Duration kCloseTime = std::chrono::seconds(10);

// Lets go of the GIL where this thread holds it: the runtime's thread may need it in a callback.
class WithoutGil {
 public:
  WithoutGil() : state_(PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr) {}
  ~WithoutGil() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace

HoldfastBackend::HoldfastBackend(std::shared_ptr<comm::Communicator> group,
                                 std::chrono::milliseconds timeout, std::string group_name)
    : Backend(group->rank().value, group->size()),
      group_(std::move(group)),
      options_(c10::make_intrusive<BackendOptions>(timeout)) {
  options_->group_name = std::move(group_name);
  init();
}

HoldfastBackend::~HoldfastBackend() {
  const WithoutGil release;
  group_.reset();
}

void HoldfastBackend::abort() {
  const WithoutGil release;
  group_->abort("abort() was called");
}

void HoldfastBackend::shutdown() {
  const WithoutGil release;
  // A group whose ops cannot end any more has said why already.
  [[maybe_unused]] const Status status = group_->close(kCloseTime);
}

c10d::ErrorType HoldfastBackend::getError() {
  switch (group_->health().code()) {
    case Code::kOk: return c10d::ErrorType::SUCCESS;
    case Code::kTimeout: return c10d::ErrorType::TIMEOUT;
    case Code::kPeerLost: return c10d::ErrorType::REMOTE_ERROR;
    default: return c10d::ErrorType::COMM_ERROR;
  }
}

WorkPtr HoldfastBackend::go(c10d::OpType type, const char* title, std::vector<Item> items,
                            TensorList results, const CallOptions& call) {
  ++sequence_;
  const auto limit = call.timeout == c10d::kUnsetTimeout ? options_->timeout : call.timeout;
  std::vector<std::shared_ptr<comm::Work>> ops;
  std::vector<Tensors> tensors;
  for (Item& item : items) {
    item.request.timeout = limit;
    item.request.expect_wait = !call.async && !coalescing_;
    ops.push_back(value_or_raise(group_->start(std::move(item.request))));
    tensors.push_back(std::move(item.tensors));
  }
  if (coalescing_) {
    coalesced_ops_.insert(coalesced_ops_.end(), ops.begin(), ops.end());
    for (Tensors& t : tensors) coalesced_tensors_.push_back(std::move(t));
    coalesced_results_.insert(coalesced_results_.end(), results.begin(), results.end());
    return nullptr;
  }
  auto work = c10::make_intrusive<HoldfastWork>(
      HoldfastWork::About{getRank(), type, title, std::move(results), sequence_},
      std::vector{group_});
  work->follow(std::move(ops), std::move(tensors));
  return work;
}

void HoldfastBackend::startCoalescing() { coalescing_ = true; }

WorkPtr HoldfastBackend::endCoalescing() {
  coalescing_ = false;
  auto work = c10::make_intrusive<HoldfastWork>(
      HoldfastWork::About{getRank(), c10d::OpType::COALESCED, "holdfast:coalesced",
                          std::exchange(coalesced_results_, {}), sequence_},
      std::vector{group_});
  work->follow(std::exchange(coalesced_ops_, {}), std::exchange(coalesced_tensors_, {}));
  return work;
}

void HoldfastBackend::monitoredBarrier(const c10d::BarrierOptions& opts, bool) {
  const WithoutGil release;
  barrier(opts)->wait();
}

}  // namespace holdfast::torch_backend
