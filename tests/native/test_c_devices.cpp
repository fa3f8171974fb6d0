// The C interface on devices that only a test can make: two of them, and streams that are captured.
// Everything else is in tests/python/c/test_c_devices.py.
#include <doctest/doctest.h>

#include "handles.h"
#include "rigs.h"

namespace holdfast::testing {
namespace {

// What a call says that fails with this; else what happened instead.
std::string refusal(hf_status got, hf_status wanted) {
  if (got == wanted) return hf_last_error();
  return std::string("status ") + hf_status_name(got) + ": " + hf_last_error();
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("two devices in one call, and a captured stream, are refused by name") {
  const auto body = [](int, Member& member, Rig& rig) -> std::string {
    hf_node node{member.node, ""};
    hf_group group{member.group, {}, member.node};
    void* memory[2] = {};
    for (const int32_t device : {0, 1}) {
      if (hf_device_allocate(&node, device, 400, &memory[device]) != HF_OK) return hf_last_error();
    }
    int32_t of = 7;
    if (hf_device_of(&node, memory[1], &of) != HF_OK || of != 1) return "device of memory";
    hf_group* on = nullptr;
    if (hf_group_on_device(&group, 0, rig.stream.value, &on) != HF_OK) return hf_last_error();
    const auto sum = [&](void* in, void* out, hf_work** work) {
      return hf_all_reduce(on, in, out, 100, HF_F32, HF_SUM, work);
    };
    std::string text = refusal(sum(memory[0], memory[1], nullptr), HF_CONFIG_ERROR);
    if (!contains(text, "memory of CUDA device 1 among that of CUDA device 0")) return text;
    text = refusal(hf_group_on_device(&group, 2, nullptr, &on), HF_CONFIG_ERROR);
    if (!contains(text, "CUDA device 2; accepted: 0 to 1")) return text;
    rig.driver.control->set_capturing(rig.stream, true);
    text = refusal(sum(memory[0], memory[0], nullptr), HF_UNSUPPORTED);
    if (!contains(text, "all_reduce on a stream that is captured into a CUDA graph")) return text;
    rig.driver.control->set_capturing(rig.stream, false);
    // None of these has begun.
    hf_work* work = nullptr;
    if (sum(memory[0], memory[0], &work) != HF_OK) return hf_last_error();
    if (hf_work_wait(work, -1) != HF_OK) return hf_last_error();
    hf_work_free(work);
    hf_group_free(on);
    for (const int32_t device : {0, 1}) {
      if (hf_device_release(&node, device, memory[device]) != HF_OK) return hf_last_error();
    }
    return "";
  };
  Setup setup;
  setup.adjust = [](int, Options&, device::EmulatedSettings& settings) { settings.devices = 2; };
  run_rigs(2, body, setup);
}

TEST_CASE(
    "a stream that is captured is not made to wait, and one that is not goes on when the op "
    "fails") {
  run_rigs(2, [](int r, Member& member, Rig& rig) -> std::string {
    if (r == 1) {
      member.group->abort("enough");
      return "";
    }
    hf_node node{member.node, ""};
    hf_group group{member.group, {}, member.node};
    hf_group* on = nullptr;
    hf_work* work = nullptr;
    void* memory = nullptr;
    if (hf_device_allocate(&node, 0, 400, &memory) != HF_OK) return hf_last_error();
    if (hf_group_on_device(&group, 0, rig.stream.value, &on) != HF_OK) return hf_last_error();
    // Whether the other rank's end is known already is chance; the op has not begun then.
    const hf_status begun = hf_all_reduce(on, memory, memory, 100, HF_F32, HF_SUM, &work);
    if (begun == HF_OK) {
      rig.driver.control->set_capturing(rig.stream, true);
      int done = 0;
      if (hf_work_test(work, &done) != HF_OK) return hf_last_error();
      const hf_status captured = hf_work_wait_on(work, rig.stream.value);
      rig.driver.control->set_capturing(rig.stream, false);
      if (captured != HF_UNSUPPORTED && captured != HF_PEER_LOST) return hf_last_error();
      [[maybe_unused]] const hf_status waits = hf_work_wait_on(work, rig.stream.value);
      if (rig.d().stream_synchronize(rig.stream) != Cu::kSuccess) return "stream";
      std::string text = refusal(hf_work_wait(work, 30'000'000'000), HF_PEER_LOST);
      if (!contains(text, "enough")) return text;
      hf_work_free(work);
    } else if (begun != HF_PEER_LOST) {
      return hf_last_error();
    }
    hf_group_free(on);
    return hf_device_release(&node, 0, memory) == HF_OK ? "" : hf_last_error();
  });
}

}  // namespace
}  // namespace holdfast::testing
