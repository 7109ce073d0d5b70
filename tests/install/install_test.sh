#!/bin/sh
# Installs the built tree, moves it, and builds and runs another project on it: install_test.sh SOURCE BUILD CASE
#   models       everything, used with find_package(multihead COMPONENTS models)
#   onnx         everything, used with find_package(multihead COMPONENTS onnx): fmt, JSON, ICU, zlib and SentencePiece are not looked for
#   engine       everything, used with find_package(multihead): the same
#   engine_only  MULTIHEAD_BUILD_TOOLS=OFF, configured and used where Highway is the only library that can be found
set -eu
source=$1 build=$2 case=$3
work=$build/tests/install/$case
rm -rf "$work"
mkdir -p "$work"

fail() { echo "install_test: $*" >&2; exit 1; }
of_cache() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }

# What both configurations share with the build under test.
set -- -G Ninja "-DCMAKE_BUILD_TYPE=$(of_cache CMAKE_BUILD_TYPE)" "-DCMAKE_CXX_COMPILER=$(of_cache CMAKE_CXX_COMPILER)" \
  "-DCMAKE_CXX_FLAGS=$(of_cache CMAKE_CXX_FLAGS)"
if [ "$case" != models ]; then
  for package in fmt nlohmann_json ICU ZLIB SentencePiece CLI11 GTest; do set -- "$@" "-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON"; done
fi

installed=$build
if [ "$case" = engine_only ]; then
  installed=$work/build
  cmake -S "$source" -B "$installed" "$@" -DMULTIHEAD_BUILD_TOOLS=OFF -DMULTIHEAD_BUILD_TESTS=OFF
  cp "$build/libmultihead.a" "$installed/"  # the same sources and flags: not compiled twice
fi
cmake --install "$installed" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix"  # an installed tree may be moved
if grep -rlF -e "$source" -e "$build" "$work/prefix" --include='*.cmake' --include='*.hpp'; then
  fail "the files above name the build's own folders"
fi
[ "$case" != engine_only ] || [ ! -e "$work/prefix/bin" ] || fail "the engine alone must install no command"

components=
case $case in models | onnx) components=$case ;; esac
cmake -S "$source/tests/install/consumer" -B "$work/consumer" "$@" "-DCMAKE_PREFIX_PATH=$work/prefix" \
  "-DCOMPONENTS=$components"
cmake --build "$work/consumer"
"$work/consumer/consumer"
[ "$case" = engine_only ] || "$work/prefix/bin/multihead" --help >/dev/null || fail "the installed command does not start"
