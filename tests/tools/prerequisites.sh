#!/bin/sh
# prerequisites.sh NAME…   Sees to it that the named things are on this machine, with apt where they are not.
# Without the right to install, it says what to install and fails.
set -eu
missing=
for name in "$@"; do
  case $name in
    venv) python3 -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv" ;;
    gcc) { command -v gcc && echo '#include <stdio.h>' | gcc -E - ; } >/dev/null 2>&1 || missing="$missing gcc libc6-dev" ;;
    *) command -v "$name" >/dev/null || missing="$missing $name" ;;
  esac
done
[ -z "$missing" ] && exit 0
if ! command -v apt-get >/dev/null; then
  echo "please install:$missing" >&2; exit 1
fi
as_root=
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
    echo "please run: sudo apt-get install$missing" >&2; exit 1
  fi
  as_root=sudo
fi
echo "installing$missing" >&2
$as_root apt-get -qq update
# shellcheck disable=SC2086 # one word a package
DEBIAN_FRONTEND=noninteractive $as_root apt-get -qq install -y --no-install-recommends $missing >/dev/null
