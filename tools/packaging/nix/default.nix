# SPDX-License-Identifier: LGPL-2.1-or-later
# With Nixpkgs: nix-build tools/packaging/nix, in a clone or an unpacked tarball. No CUDA is needed, as the library opens
# the driver of the machine when a program runs; on NixOS that is in /run/opengl-driver/lib.
{ pkgs ? import <nixpkgs> { } }:

pkgs.stdenv.mkDerivation {
  pname = "libvpmm";
  version = "0.1.0";
  src = pkgs.lib.cleanSource ../../..;

  outputs = [ "out" "dev" "man" ];
  nativeBuildInputs = [
    pkgs.autoconf-archive
    pkgs.autoreconfHook
    pkgs.pkg-config
    pkgs.python3
  ];
  buildInputs = [ pkgs.glib pkgs.zlib ];
  configureFlags = [ "--without-cuda-toolkit" ];
  enableParallelBuilding = true;

  # cuInit() and the others are looked for in libcuda.so.1 by dlopen().
  postFixup = ''
    for file in $out/lib/libvpmm.so.0 $out/lib/vpmm/*.so; do
      [ ! -f "$file" ] || patchelf --add-rpath /run/opengl-driver/lib "$file"
    done
  '';

  # On ordinary memory, with no GPU.
  doInstallCheck = true;
  installCheckPhase = ''
    VPMM_BACKEND=host $out/bin/vpmm-info
  '';

  meta = {
    description = "GPU memory pool without fragmentation";
    license = pkgs.lib.licenses.lgpl21Plus;
    platforms = [ "x86_64-linux" "aarch64-linux" ];
  };
}
