// What a process shows of itself: its metrics and its flight record, and the thread that serves
// them as pages, if they are wanted.
#pragma once

#include "runtime/runtime.h"

namespace holdfast::runtime {

// Makes the parts `health`, and `status` and `http` where there are pages, from the other ones.
Status serve_health(Runtime::RuntimeParts& parts);

}  // namespace holdfast::runtime
