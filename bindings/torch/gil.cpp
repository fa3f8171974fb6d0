#include "gil.h"

#include <atomic>
#include <thread>

namespace holdfast::torch_backend {
namespace {

std::atomic<std::thread::id> ending_thread{};

}  // namespace

void process_ends() { ending_thread.store(std::this_thread::get_id()); }

void park_if_process_ends() {
  const std::thread::id ending = ending_thread.load();
  if (ending == std::thread::id{} || ending == std::this_thread::get_id()) return;
  if (PyGILState_GetThisThreadState() == nullptr) return;
  if (holds_gil()) PyEval_SaveThread();
  bindings::park();
}

}  // namespace holdfast::torch_backend
