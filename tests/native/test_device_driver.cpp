// The table of the CUDA driver's functions, where there is no driver.
#include <doctest/doctest.h>

#include "device/driver.h"

namespace holdfast::device {
namespace {

TEST_CASE("a system without a driver says which library is missing") {
  const auto driver = open_driver("libcuda_that_nobody_has.so.1");
  REQUIRE(!driver.is_ok());
  CHECK(driver.status().code() == Code::kUnsupported);
  CHECK(driver.status().message().find("libcuda_that_nobody_has.so.1") != std::string::npos);
}

TEST_CASE("a library that is no driver, or an old one, says which function is missing") {
  const auto driver = open_driver("libm.so.6");
  REQUIRE(!driver.is_ok());
  CHECK(driver.status().code() == Code::kUnsupported);
  CHECK(driver.status().message() ==
        "libm.so.6 has no cuInit: a CUDA driver of version 12.0 or later is needed");
}

TEST_CASE("errors carry the driver's own words, or the number where it has none") {
  CudaDriver driver;
  driver.get_error_name = [](Cu error, const char** text) {
    if (error != Cu::kOutOfMemory) return Cu::kInvalidValue;
    *text = "CUDA_ERROR_OUT_OF_MEMORY";
    return Cu::kSuccess;
  };
  driver.get_error_string = [](Cu error, const char** text) {
    if (error != Cu::kOutOfMemory) return Cu::kInvalidValue;
    *text = "out of memory";
    return Cu::kSuccess;
  };
  CHECK(check(driver, Cu::kSuccess, "anything").is_ok());
  const Status full = check(driver, Cu::kOutOfMemory, "allocating 8 bytes");
  CHECK(full.code() == Code::kSystem);
  CHECK(full.message() == "allocating 8 bytes: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  CHECK(check(driver, static_cast<Cu>(4711), "x").message() == "x: CUDA error 4711");
  CHECK(check(driver, Cu::kNotSupported, "x").code() == Code::kUnsupported);
}

}  // namespace
}  // namespace holdfast::device
