#!/bin/sh
# Installs Tenure from a release: the program, its manual and its completions.
#
#   sh install.sh FROM [PREFIX]
#
# FROM is the https:// address of the release's folder, or a local copy of it. PREFIX gets `bin` and `share`; it is
# /usr/local for root, and ~/.local for others. Nothing is installed if the archive differs from its checksum in
# SHA256SUMS. That file comes from the same place, so it detects damage. It does not prove who made the release.
set -eu
umask 022

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

[ $# = 1 ] || [ $# = 2 ] || fail "usage: sh install.sh FROM [PREFIX]"
from=${1%/}
if [ $# = 2 ]; then
    prefix=$2
elif [ "$(id -u)" = 0 ]; then
    prefix=/usr/local
else
    prefix=$HOME/.local
fi

case $(uname -s)-$(uname -m) in
Linux-x86_64 | Linux-amd64) target=x86_64-unknown-linux-musl ;;
Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-musl ;;
*) fail "releases are for Linux on x86_64 and aarch64, and this is $(uname -s) on $(uname -m); build from source" ;;
esac

fetch() {
    case $from in
    # Without TLS only from this machine.
    https://* | http://localhost:* | http://127.0.0.1:*)
        curl --fail --silent --show-error --location --proto-redir =https --output "$work/$1" "$from/$1" ;;
    *://*) fail "$from: the address must begin with https://" ;;
    *) cp "$from/$1" "$work/$1" ;;
    esac || fail "$from/$1 cannot be read"
}

for tool in gzip install mktemp sha256sum tar; do
    command -v "$tool" >/dev/null || fail "$tool is missing: install it first"
done
case $from in
*://*) command -v curl >/dev/null || fail "curl is missing: install it first" ;;
esac

work=$(mktemp -d)
new=$prefix/bin/.tenure.new
trap 'rm -rf "$work" "$new"' EXIT
trap 'exit 1' HUP INT TERM

fetch SHA256SUMS
line=$(grep -E "^[0-9a-f]{64}  tenure-[0-9A-Za-z.+-]+-$target\.tar\.gz\$" "$work/SHA256SUMS") ||
    fail "$from/SHA256SUMS names no program for $target"
[ "$(printf '%s\n' "$line" | wc -l)" = 1 ] || fail "$from/SHA256SUMS names several programs for $target"
archive=${line#*  }
fetch "$archive"
(cd "$work" && printf '%s\n' "$line" | sha256sum -c - >/dev/null 2>&1) ||
    fail "$from/$archive differs from its checksum in SHA256SUMS; nothing is installed"
tar -xzf "$work/$archive" -C "$work"
unpacked=$work/${archive%.tar.gz}

# Each file is renamed into place, so that a running program and a second installation see whole files.
mkdir -p "$prefix/bin"
install -m 755 "$unpacked/tenure" "$new"
version=$("$new" --version) || fail "the program does not run here; nothing is installed"

place() {
    mkdir -p "$prefix/share/$2"
    install -m 644 "$1" "$prefix/share/$2/.tenure.new"
    mv -f "$prefix/share/$2/.tenure.new" "$prefix/share/$2/$3"
}
for page in "$unpacked"/man/*.1; do
    place "$page" man/man1 "${page##*/}"
done
place "$unpacked/completions/tenure.bash" bash-completion/completions tenure
place "$unpacked/completions/tenure.zsh" zsh/site-functions _tenure
place "$unpacked/completions/tenure.fish" fish/vendor_completions.d tenure.fish
mv -f "$new" "$prefix/bin/tenure"

echo "$version is installed: $prefix/bin/tenure"
case :$PATH: in
*":$prefix/bin:"*) ;;
*) echo "$prefix/bin is not in PATH" ;;
esac
