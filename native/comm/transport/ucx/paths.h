// Paths over UCX: the offer and the answer are each side's card, which describes its end of the
// link.
#pragma once

#include <memory>

#include "comm/transport/catalogue.h"

namespace holdfast::comm {

// Returns kConfigError as UcxWorker::create() does.
Result<std::unique_ptr<PathMaker>> open_ucx(const PathSettings& settings);

}  // namespace holdfast::comm
