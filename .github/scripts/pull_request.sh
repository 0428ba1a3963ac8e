#!/usr/bin/env bash
# Open a pull request with the refreshed baselines that lie in $REFRESHED. Never pushes to the default branch.
set -euo pipefail

: "${REFRESHED:?folder with baselines/ and body.md}" "${TPGATE_SCENARIO:?}" "${GITHUB_RUN_ID:?}" "${GITHUB_RUN_ATTEMPT:?}"

if [[ -z "${GH_TOKEN:-}" ]]; then
  echo "::error title=refresh::no App and no TPGATE_REFRESH_TOKEN is set up. A pull request that is opened with the workflow's own token starts no checks, so none is opened: see docs/nightly.md"
  exit 6
fi
if [[ ! "$TPGATE_SCENARIO" =~ ^[a-z0-9][a-z0-9.-]*$ ]]; then
  echo "::error title=refresh::the scenario is no lower-case name"
  exit 2
fi
# Whatever came from the measuring machine: baselines alone, by name, and regular files.
strangers=$(cd "$REFRESHED" && find . -type f ! -path './baselines/*.json' ! -path './body.md' -o -type l)
if [[ -n "$strangers" || ! -s "$REFRESHED/body.md" || ! -d "$REFRESHED/baselines" ]]; then
  echo "::error title=refresh::the measuring job handed over something else than baselines and a body"
  exit 6
fi

branch="refresh/$TPGATE_SCENARIO-$GITHUB_RUN_ID-$GITHUB_RUN_ATTEMPT"
git switch --create "$branch"
cp -R "$REFRESHED/baselines/." baselines/
git add -- baselines
if git diff --cached --quiet; then
  echo "::error title=refresh::the baselines are as they were: there is nothing to review"
  exit 6
fi
git -c user.name="${GIT_NAME:-tpgate refresh}" -c user.email="${GIT_EMAIL:-tpgate@users.noreply.github.com}" \
  commit --quiet --message "Refresh the baseline of $TPGATE_SCENARIO" -- baselines
gh auth setup-git
git push origin "HEAD:refs/heads/$branch"
gh pr create --head "$branch" --title "Refresh the baseline of $TPGATE_SCENARIO" --body-file "$REFRESHED/body.md"
