#!/bin/sh
# State a tolerance, judge a finished run again, and accept what is known.
#     sh examples/05_tolerances_and_baseline.sh
set -eu
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
python "$here/faulty.py" "$work"

echo "-- the noise floor decides (FAIL is expected: exit code 1)"
twinnet check "$work/model.onnx" --twin "$work/faulty.onnx" --out "$work/run" -q || test $? -eq 1

echo "-- the same run under a stated tolerance; nothing runs again"
twinnet judge "$work/run" --atol 0.01 -q

echo "-- only what is new against an accepted run counts"
twinnet judge "$work/run" --baseline "$work/run" -q
