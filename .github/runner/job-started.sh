#!/usr/bin/env bash
# For ACTIONS_RUNNER_HOOK_JOB_STARTED: runs before every job, and so before its checkout.
# Files of another user in the workspace break the checkout; leftovers of a killed job take the GPUs.
set -euo pipefail

workspace="${GITHUB_WORKSPACE:-}"
if [[ -n "$workspace" && -d "$workspace" ]]; then
  stranger="$(find "$workspace" ! -user "$(id -un)" -print -quit)"
  if [[ -n "$stranger" ]]; then
    echo "$stranger belongs to another user; giving $workspace back to $(id -un)"
    sudo --non-interactive chown --recursive --no-dereference "$(id -u):$(id -g)" "$workspace"
  fi
fi
exec python3 "$(dirname "$(readlink -f "$0")")/sweep.py"
