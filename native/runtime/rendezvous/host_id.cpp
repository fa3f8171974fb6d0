#include "runtime/rendezvous/host_id.h"

#include <sys/stat.h>

#include <fstream>

namespace holdfast::runtime {

std::string host_id() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  struct stat shm {};
  struct stat pids {};
  ::stat("/dev/shm", &shm);
  ::stat("/proc/self/ns/pid", &pids);
  // Containers of one machine differ in the device of their /dev/shm.
  return boot + "-" + std::to_string(shm.st_dev) + "-" + std::to_string(pids.st_ino);
}

}  // namespace holdfast::runtime
