#!/bin/sh
# An engineer, her own detector, and the ONNX file that ships.
#     sh examples/07_own_detector.sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cd "$work"
net="$here/detector/detector.py:build"

echo "-- export it, with one weight of the score head changed on the way"
python "$here/detector/export.py" detector.onnx

echo "-- is it the same? The shape is taken from the file (FAIL is expected: exit code 1)"
twinnet check "$net" --twin detector.onnx --out run || test $? -eq 1

echo "-- which names do other options take?"
twinnet inspect "$net" --shape image=1x3x64x48 --sites

echo "-- the boxes must agree, the scores may be off by 0.1: rules by the names of outputs"
cat > rules.toml <<'END'
[[rule]]
site = "boxes"
atol = 1e-5

[[rule]]
site = "scores"
atol = 0.1
END
twinnet judge run --tolerance rules.toml -q

echo "-- the smallest file that shows it, for whoever wrote the converter"
twinnet repro run
