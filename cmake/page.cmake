# Makes the status page: native/health/page/{status.html,style.css,script.js} become one file, and
# that a string in the library, so that a wheel has no file to look for. A script:
# cmake -DFOLDER=... -DOUT=... -P page.cmake
file(READ ${FOLDER}/status.html page)
file(READ ${FOLDER}/style.css style)
file(READ ${FOLDER}/script.js script)
string(REPLACE "/* style.css */" "${style}" page "${page}")
string(REPLACE "/* script.js */" "${script}" page "${page}")
file(WRITE ${OUT} "// Made by cmake/page.cmake of native/health/page.
#include \"health/status_page.h\"

namespace holdfast::health {

std::string_view status_page() {
  static constexpr char kPage[] = R\"page(${page})page\";
  return {kPage, sizeof kPage - 1};
}

}  // namespace holdfast::health
")
