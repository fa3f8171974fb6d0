// Cores: which one this thread runs on, and leaving it to another thread.
#pragma once

namespace holdfast {

// -1 where the system does not say. Any thread.
int current_core();

// Makes this thread go on elsewhere, if it runs on that core and may run on others; where it may
// run stays as it was. Some tens of microseconds. Any thread.
void leave_core(int core);

}  // namespace holdfast
