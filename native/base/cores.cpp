#include "base/cores.h"

#include <sched.h>

namespace holdfast {

int current_core() { return ::sched_getcpu(); }

void leave_core(int core) {
  cpu_set_t allowed;
  // Machines with more cores than such a set has are refused here, and stay as they are.
  if (core < 0 || core >= CPU_SETSIZE || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    return;
  }
  cpu_set_t others = allowed;
  CPU_CLR(static_cast<unsigned>(core), &others);
  if (CPU_COUNT(&others) == 0 || ::sched_setaffinity(0, sizeof others, &others) != 0) return;
  // It has moved by now; a refusal would only keep it off that core.
  static_cast<void>(::sched_setaffinity(0, sizeof allowed, &allowed));
}

}  // namespace holdfast
