// Status page: one HTML file with its style and script inside, which the build makes from
// native/health/page (cmake/page.cmake).
#pragma once

#include <string_view>

namespace holdfast::health {

std::string_view status_page();

}  // namespace holdfast::health
