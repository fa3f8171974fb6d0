// What a process shows of itself: its metrics and its flight record, and the thread that serves
// them as pages, if they are wanted.
#pragma once

#include <functional>
#include <memory>

#include "runtime/runtime.h"

namespace holdfast::runtime {

// Serves pages where the options say, behind the lock that they name: `credentials` is set
// first (null: pages are for whoever asks), and outlives what is returned; then `make` makes what
// answers. `is_private`: nobody else sees what a caller sends.
using MakePages = std::function<health::HttpEndpoint::Serve(bool is_private)>;
Result<std::unique_ptr<health::HttpEndpoint>> start_pages(
    const Options& options, std::unique_ptr<const health::Credentials>& credentials,
    const MakePages& make);

// Makes the parts `health`, and `status` and `http` where there are pages, from the other ones.
Status serve_health(Runtime::RuntimeParts& parts);

}  // namespace holdfast::runtime
