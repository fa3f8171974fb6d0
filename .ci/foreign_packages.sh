#!/usr/bin/env bash
# Unpacks Debian's packages for another processor to DIR, once. Nothing is installed, and what apt
# knows of this system stays as it is: the lists and the packages lie in a folder of their own.
# usage: foreign_packages.sh ARCH DIR PACKAGE...
set -euo pipefail
arch=$1
to=$2
shift 2
case $arch in
  aarch64) debian=arm64 ;;
  x86_64) debian=amd64 ;;
  *) echo "foreign_packages.sh: no such processor: $arch" >&2; exit 2 ;;
esac
"$(dirname "$0")/system.sh" "$arch"
[[ ! -e $to/.unpacked ]] || exit 0
mkdir -p "$to"
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt"/state/lists/partial "$apt"/cache/archives/partial
cat > "$apt/apt.conf" <<CONF
APT::Architecture "$debian";
APT::Architectures { "$debian"; };
APT::Sandbox::User "root";
Dir::State "$apt/state";
Dir::State::status "/dev/null";
Dir::Cache "$apt/cache";
CONF
export APT_CONFIG=$apt/apt.conf
apt-get update -qq
(cd "$apt" && apt-get download -qq "$@")
for package in "$apt"/*.deb; do dpkg-deb --extract "$package" "$to"; done
touch "$to/.unpacked"
