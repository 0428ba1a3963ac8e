#!/usr/bin/env bash
# Green only where the measuring job succeeded AND said a verdict that passes; a cancelled or lost job said none.
set -euo pipefail

result="${RESULT:-}"
verdict="${VERDICT:-}"
if [[ "$result" == success && ( "$verdict" == OK || "$verdict" == IMPROVED ) ]]; then
  echo "verdict $verdict"
  exit 0
fi
echo "::error title=night::the measuring job ended as '${result:-lost}', its verdict is '${verdict:-none}'"
case "$verdict" in
  REGRESSED) exit 1 ;;
  VOID) exit 3 ;;
  "NO BASELINE") exit 4 ;;
  INCONCLUSIVE) exit 5 ;;
  *) exit 6 ;;
esac
