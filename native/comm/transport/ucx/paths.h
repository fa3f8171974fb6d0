// Paths over UCX: each side's card of its end of a link is the offer and the answer.
#pragma once

#include <memory>

#include "comm/transport/catalogue.h"

namespace holdfast::comm {

// kConfigError as UcxWorker::create().
Result<std::unique_ptr<PathMaker>> open_ucx(const PathSettings& settings);

}  // namespace holdfast::comm
