# SPDX-License-Identifier: LGPL-2.1-or-later
# Sourced by the test scripts that run Python with the library of this build: skips them where it cannot load that.

if [ ! -e "$top_builddir/lib/.libs/libvpmm-torch.so" ]; then
	echo "1..0 # SKIP built without a shared object"
	exit 0
fi
case ${SANITIZE_CFLAGS-} in
?*)
	echo "1..0 # SKIP the runtime of a sanitizer has to come first, and Python was built without it"
	exit 0
	;;
esac
