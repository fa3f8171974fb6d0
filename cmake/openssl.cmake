# OpenSSL 3, for tokens, keys and TLS of native/secure. The static one where there is one, so that a
# wheel needs nothing from its host; its symbols stay hidden, or they would meet another copy in the
# process, such as Python's. Without it the library builds, and says that it was built without.
# Why: docs/decisions/0153-a-token-is-a-derived-key.md
option(HOLDFAST_OPENSSL "Link OpenSSL for tokens, keys and TLS, where there is one" ON)
if(HOLDFAST_OPENSSL)
  find_path(OPENSSL_INCLUDE_DIR openssl/ssl.h)
  # Debian keeps what depends on the processor apart, where a cross compiler does not look.
  find_path(OPENSSL_CONFIGURATION_DIR openssl/opensslconf.h HINTS ${OPENSSL_INCLUDE_DIR})
  find_library(OPENSSL_SSL_LIBRARY NAMES libssl.a ssl)
  find_library(OPENSSL_CRYPTO_LIBRARY NAMES libcrypto.a crypto)
  mark_as_advanced(OPENSSL_INCLUDE_DIR OPENSSL_CONFIGURATION_DIR
    OPENSSL_SSL_LIBRARY OPENSSL_CRYPTO_LIBRARY)
endif()

set(openssl_major 0)
if(HOLDFAST_OPENSSL AND OPENSSL_INCLUDE_DIR AND OPENSSL_CONFIGURATION_DIR
   AND OPENSSL_SSL_LIBRARY AND OPENSSL_CRYPTO_LIBRARY)
  # Absent before OpenSSL 3, whose header says it in one number.
  file(STRINGS ${OPENSSL_INCLUDE_DIR}/openssl/opensslv.h major_line
    REGEX "define OPENSSL_VERSION_MAJOR ")
  string(REGEX MATCH "[0-9]+" openssl_major "${major_line}")
endif()

file(GLOB_RECURSE secure_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/native/secure/*.cpp)
# With the headers they have settings of their own; without, unity builds group the others alike.
set_source_files_properties(${secure_sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
set(HOLDFAST_HAS_OPENSSL OFF)
if(openssl_major GREATER_EQUAL 3)
  set(HOLDFAST_HAS_OPENSSL ON)
  set(openssl_definitions HOLDFAST_OPENSSL)
  if(OPENSSL_CRYPTO_LIBRARY MATCHES "\\.a$")
    list(APPEND openssl_definitions HOLDFAST_OPENSSL_IS_OURS)
  endif()
  set_source_files_properties(${secure_sources} PROPERTIES
    COMPILE_DEFINITIONS "${openssl_definitions}"
    INCLUDE_DIRECTORIES "${OPENSSL_INCLUDE_DIR};${OPENSSL_CONFIGURATION_DIR}")
  target_link_libraries(holdfast PRIVATE ${OPENSSL_SSL_LIBRARY} ${OPENSSL_CRYPTO_LIBRARY})
  target_link_options(holdfast PRIVATE -Wl,--exclude-libs,libssl.a:libcrypto.a)
elseif(HOLDFAST_OPENSSL)
  message(STATUS "OpenSSL 3 not found: tokens, keys and TLS are left out")
else()
  message(STATUS "HOLDFAST_OPENSSL is off: tokens, keys and TLS are left out")
endif()
