# shellcheck shell=bash disable=SC2034
# Shared by the scripts in this folder. Sourced, not run.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
script=$(basename "$0")

say() { printf '%s: %s\n' "$script" "$*"; }

# Prints the reason and exits with the tool's code for "could not do it".
fail() {
  printf '%s: %s\n' "$script" "$*" >&2
  exit 3
}

# --help prints the comment at the head of the script.
help_if_asked() {
  case "${1-}" in
    -h | --help)
      awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0"
      exit 0
      ;;
  esac
}

wrong_usage() {
  printf '%s: %s. Try %s --help.\n' "$script" "$*" "$0" >&2
  exit 2
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "$1 needs root and there is no sudo. Run this as root, or install sudo."
  fi
}

# The number of parallel jobs: one per processor.
jobs_count() { getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2; }
