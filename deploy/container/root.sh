#!/bin/sh
# Makes the root folder of a container image: the program, the libraries that it is linked with, and who it runs as. Nothing
# is fetched: the libraries are this machine's, so that the image is as new as this machine.
#
#   root.sh target/release/trainyard OUT
set -eu

[ $# -eq 2 ] || { echo "usage: root.sh PROGRAM OUT" >&2; exit 64; }
program=$1 out=$2
[ -x "$program" ] || { echo "root.sh: $program is no program; build it with: cargo build --release --locked -p trainyard --features full" >&2; exit 66; }
[ ! -e "$out" ] || { echo "root.sh: $out exists; remove it or give another folder" >&2; exit 73; }

mkdir -p "$out/usr/bin" "$out/etc" "$out/etc/trainyard" "$out/run/trainyard" "$out/srv/trainyard" "$out/tmp" "$out/var/tmp" "$out/var/lib/trainyard" "$out/etc/ssl/certs"
install -m 755 "$program" "$out/usr/bin/trainyard"
strip --strip-debug "$out/usr/bin/trainyard" 2>/dev/null || echo "root.sh: no strip here, the image holds line tables" >&2
# Paths as the program asks for them, the loader among them.
ldd "$program" | sed -n 's|^[^/]*\(/[^ ]*\).*|\1|p' | sort -u | while read -r library; do
    install -D -m 755 "$(realpath "$library")" "$out$library"
done
# Object stores are reached by TLS: whom to trust is this machine's list.
authorities=/etc/ssl/certs/ca-certificates.crt
[ -f "$authorities" ] || authorities=/etc/pki/tls/certs/ca-bundle.crt
if [ -f "$authorities" ]; then
    install -m 644 "$(realpath "$authorities")" "$out/etc/ssl/certs/ca-certificates.crt"
else
    echo "root.sh: no CA certificates here (package ca-certificates): the image cannot use buckets" >&2
fi
# Names of hosts are looked up by the C library itself, in hosts and DNS.
echo 'hosts: files dns' >"$out/etc/nsswitch.conf"
printf '%s\n' 'root:x:0:0::/:/sbin/nologin' 'trainyard:x:64100:64100::/var/lib/trainyard:/sbin/nologin' >"$out/etc/passwd"
printf '%s\n' 'root:x:0:' 'trainyard:x:64100:' >"$out/etc/group"
chown 64100:64100 "$out/var/lib/trainyard" "$out/srv/trainyard" 2>/dev/null ||
    echo "root.sh: not run as root: give the image's folders to 64100 yourself" >&2
chmod 1777 "$out/tmp" "$out/var/tmp"
