#!/usr/bin/env bash
# Installs the Debian packages that a make target needs, and only those whose file is not there yet.
# Usage: .ci/system.sh build|native|test|check|aarch64 ...
# Why: docs/decisions/0003-makefile-installs-what-is-missing.md
set -euo pipefail

python=${PYTHON:-python3}
missing=()

# need PACKAGE CONDITION...: the package is wanted when the condition (a command) fails.
need() {
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}

has_header() { echo "#include <$1>" | c++ -E -x c++ - ; }
has_python_header() {
  "$python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))'
}
has_fuzzer_runtime() {
  local flags=(-fsanitize=fuzzer,address,undefined)
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    clang++ "${flags[@]}" -x c++ - -o /dev/null
}

for set in "$@"; do
  case $set in
    build)
      need g++ command -v c++
      need cmake command -v cmake
      need ninja-build command -v ninja
      need libzstd-dev has_header zstd.h
      need libssl-dev has_header openssl/ssl.h
      need libucx-dev has_header ucp/api/ucp.h  # with libucx0, its library, for the tests
      need python3-dev has_python_header
      need python3-venv "$python" -c 'import ensurepip, venv'
      ;;
    native)  # besides build
      need doctest-dev has_header doctest/doctest.h
      need libisal-dev has_header isa-l/erasure_code.h  # judges our Reed-Solomon
      ;;
    test)  # what tests/python looks at a job with
      need libucx-dev has_header ucp/api/ucp.h  # pulls the library in: the transport ucx is tested
      need prometheus command -v promtool
      need prometheus-pushgateway command -v prometheus-pushgateway
      need chromium command -v chromium
      need etcd-server command -v etcd  # elects among coordinators
      need openssl command -v openssl  # a foreign end of TLS
      need iproute2 command -v tc  # hosts and bad links in tests/python/support/emulated_network.py
      need nftables command -v nft
      ;;
    check)
      need clang command -v clang++
      need libclang-rt-14-dev has_fuzzer_runtime
      need clang-format command -v clang-format
      need clang-tidy command -v clang-tidy
      ;;
    aarch64)
      need cmake command -v cmake
      need ninja-build command -v ninja
      need doctest-dev has_header doctest/doctest.h
      need g++-aarch64-linux-gnu command -v aarch64-linux-gnu-g++
      need qemu-user command -v qemu-aarch64
      ;;
    *)
      echo "system.sh: no such set of packages: $set" >&2
      exit 2
      ;;
  esac
done

[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
  echo "Holdfast needs what these Debian packages contain: ${missing[*]}" >&2
  echo "This system has no apt-get: install the equivalents with its own package tool." >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "Holdfast needs the Debian packages: ${missing[*]}" >&2
    echo "Neither root nor sudo here: ask for them to be installed." >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "Installing Debian packages: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}"
